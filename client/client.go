// Package client lets many processes share rate limits, locks and concurrency
// limits: it asks weir serve, which decides for all of them.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080", Share: 0.25})
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
// Otherwise all calls that come until the answer go together in one batch: that
// saves work under load, and costs no time without load. A call that has to wait
// does so at the server, in one queue with the calls of all other clients.
//
// If the server refuses a batch because of one key, such as a key that the token does
// not allow, the other keys are asked for again without it. For a second, further
// calls with such a key get the same error at once.
//
// # When the server is away
//
// A call takes at most Config.Timeout in addition to its wait. If there is no valid
// answer by then, the Client decides itself, as Config.Away says: by default with
// local limiters that have a Share of each limit that the server has told.
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
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// errClosed is the error of calls on a closed Client.
var errClosed = weir.Reject(weir.Closed, 0)

// A Client asks one server. It is safe for concurrent use. It has goroutines only
// while it sends or waits for something, or has leases to renew.
type Client struct {
	cfg      Config
	base     *url.URL
	http     *http.Client
	header   http.Header
	unlearnt *keyed.Limiter[string] // for keys of which the server has told no limit; nil if they have none

	ctx       context.Context // ends with errClosed when the Client is closed
	end       context.CancelCauseFunc
	returning context.Context // ends when Close stops returning costs and leases
	endReturn context.CancelFunc

	batcher batcher
	circuit circuit
	learnt  learnt
	keeper  keeper
	returns returns
	counts  counters

	ended  chan struct{} // closed at the end of Close
	mu     sync.Mutex    // guards what follows
	closed bool
	work   sync.WaitGroup // all goroutines; none is added once closed
}

// New returns a Client, or an error that names the first field of cfg that makes
// no sense. It does not contact the server.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg.withDefaults(), header: http.Header{"Accept": {"application/json"}}, ended: make(chan struct{})}
	c.base, _ = url.Parse(strings.TrimRight(cfg.URL, "/"))
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.returning, c.endReturn = context.WithCancel(context.Background())
	c.learnt.keys = map[string]*lesson{}
	c.batcher.init()
	c.keeper.init()
	if cfg.Token != "" {
		c.header["Authorization"] = []string{"Bearer " + cfg.Token}
	}
	if cfg.OnAway == nil {
		c.cfg.OnAway = func(error) {}
	}
	if cfg.Away == Local && cfg.LocalQuota != (gcra.Quota{}) {
		var err error
		if c.unlearnt, err = keyed.New[string](cfg.LocalQuota, keyed.Config{MaxWait: c.cfg.MaxWait}); err != nil {
			return nil, err
		}
	}
	c.http = new(http.Client)
	if cfg.HTTP != nil {
		*c.http = *cfg.HTTP
	} else {
		c.http.Transport = newTransport(cfg.TLS)
	}
	c.http.Timeout = 0
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// start runs f in a goroutine, unless the Client is closed.
func (c *Client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(f)
	return true
}

// maxClosing bounds the time in which Close returns costs and leases.
const maxClosing = time.Second

// Close rejects all calls with weir.Closed from then on, including calls that wait.
// It ends the contexts of all Held, and returns the leases to the server, for at most
// a second and only if the server is not away. It returns when all goroutines have
// ended. Permits may be released after it, without effect. Its error is nil.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if !first {
		<-c.ended
		return nil
	}
	defer close(c.ended)
	defer time.AfterFunc(maxClosing, c.endReturn).Stop()
	c.end(errClosed)
	c.work.Wait()
	c.keeper.releaseAll(c)
	c.flush()
	c.endReturn()
	c.http.CloseIdleConnections()
	return nil
}
