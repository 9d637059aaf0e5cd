// Package client lets many processes share rate limits, locks and concurrency
// limits: it asks weir serve, which decides for all of them.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080", Away: client.Local, Instances: 4})
//	...
//	defer c.Close()
//
//	d, err := c.Take(ctx, "user:7", 1)                 // without a wait
//	err = weir.Do(ctx, c.For("user:7"), work)          // waits for its turn
//	err = weir.Do(ctx, c.Lease("reports"), report)     // holds a unit during the work
//
// # How it asks
//
// A call that does not wait is sent at once if no other such request is in flight.
// Otherwise all calls that come until the answer go together in one batch. A call
// that has to wait does so at the server, in one queue with the calls of all clients.
//
// If the server refuses a batch because of one key, such as a key that the token does
// not allow, the other keys are asked for again without it. For a second, further
// calls with such a key get the same error at once.
//
// # As a leaf
//
// With Config.Leaf, the Client decides about rates by itself, in less than a microsecond
// and without the network: the server assigns it a rate and a burst for each key that it
// uses, by its demand, and renews that every few seconds. All Clients together keep to the
// limit.
//
// With Config.URLs, the server is several instances that share keys: the Client asks the
// owner of a key, and another instance if the owner does not answer.
//
// # When the server is away
//
// A call takes at most Config.Timeout in addition to its wait. If there is no valid
// answer by then, the Client decides itself, as Config.Away says: it denies the call,
// allows it, or asks a local limiter that has the Client's share of the limit. The
// share is the limit that the server has told, divided by Config.Instances. What the
// server grants to the Client is taken from its share, too, so a stall of the server
// gives no Client its share twice.
//
// After three failures in a row the Client considers the server away. It decides all
// calls itself, without delay, and sends a probe from time to time in the background.
// Any valid answer, even a denial, shows that the server is back. Config.OnAway and
// Stats report both changes.
//
// A rejection by the server is not a failure. The caller gets it as a
// *weir.Rejection or a *StatusError.
//
// # When not to use it
//
// A limit for a single process needs no server: packages rate, keyed and inflight
// decide in a hundredth of the time.
package client

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/circuit"
	"github.com/weir-go/weir/internal/share"
)

// errClosed is the error of calls on a closed Client.
var errClosed = weir.Reject(weir.Closed, 0)

// A Client asks one server, which may have several instances. It is safe for concurrent use. It has goroutines only
// while it sends or waits for something, or has leases to renew.
type Client struct {
	cfg    Config
	fleet  fleet
	http   *http.Client
	header http.Header

	ctx   context.Context // ends with errClosed when the Client is closed
	end   context.CancelCauseFunc
	work  group // all goroutines but those of tells and returns
	tells group // calls of OnAway

	batcher batcher
	circuit circuit.Breaker
	limits  *share.Limits
	leaf    *leafMode // nil if the server decides
	leases  leases
	returns returns
	counts  counters

	ended chan struct{} // closed at the end of Close
}

// New returns a Client, or an error that names the first field of cfg that makes
// no sense. It does not contact the server.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg.withDefaults(), fleet: newFleet(cfg.urls()), http: new(http.Client),
		header:  http.Header{"Accept": {"application/json"}},
		batcher: batcher{parts: make(chan struct{}, maxParts), refused: map[string]refusal{}},
		leases: leases{
			renewals: make(chan struct{}, maxRenewals), single: make(chan struct{}, 1), held: map[*lease]struct{}{},
		},
		returns: returns{queue: make(chan struct{}, maxReturns), senders: make(chan struct{}, maxSenders)},
		ended:   make(chan struct{}),
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.returns.ctx, c.returns.end = context.WithCancel(context.Background())
	if cfg.Token != "" {
		c.header["Authorization"] = []string{"Bearer " + cfg.Token}
	}
	var err error
	if c.limits, err = share.New(c.cfg.Instances, c.cfg.LocalQuota); err != nil {
		return nil, err
	}
	if cfg.HTTP != nil {
		*c.http = *cfg.HTTP
	} else {
		c.http.Transport = newTransport()
	}
	c.http.Timeout = 0
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if cfg.Leaf != nil {
		if c.leaf, err = c.newLeaf(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// A group runs goroutines until it is closed.
type group struct {
	mu      sync.Mutex // guards what follows
	closed  bool
	running sync.WaitGroup // none is added once closed
}

// start runs f in a goroutine, and reports whether the group is not closed.
func (g *group) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(f)
	}
	return !g.closed
}

// close reports whether the group was not closed before.
func (g *group) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.closed
	g.closed = true
	return first
}

// enter takes a place, and reports whether there was one before ctx ended.
func enter(ctx context.Context, places chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave frees a place.
func leave(places chan struct{}) { <-places }

// maxClosing bounds the time in which Close returns costs and leases, and waits for OnAway.
const maxClosing = time.Second

// Close rejects all calls with weir.Closed, including calls that wait. It ends the
// contexts of all Held, and returns the leases, for at most a second and only if the
// server is not away. It returns when all goroutines have ended, but waits for OnAway for at
// most that second. Permits may be released after it, without effect. Its error is nil.
func (c *Client) Close() error {
	if !c.work.close() {
		<-c.ended
		return nil
	}
	defer close(c.ended)
	defer time.AfterFunc(maxClosing, c.returns.end).Stop()
	c.tells.close()
	c.end(errClosed)
	c.work.running.Wait()
	c.closeLeaf()
	c.releaseAll()
	c.returns.close()
	c.returns.running.Wait()
	told := make(chan struct{})
	go func() { c.tells.running.Wait(); close(told) }()
	select {
	case <-told:
	case <-c.returns.ctx.Done(): // OnAway may never return
	}
	c.returns.end()
	c.http.CloseIdleConnections()
	return nil
}
