// Package client asks weir serve: one place that decides rate limits and leases
// for every process.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080", Share: 0.25})
//	...
//	defer c.Close()
//
//	d, err := c.Take(ctx, "user:7", 1)                 // now, or not
//	err = weir.Do(ctx, c.For("user:7"), work)          // waits for its turn
//	err = weir.Do(ctx, c.Lease("reports"), report)     // holds a unit meanwhile
//
// # How it asks
//
// What need not wait is sent at once if no such request is under way, and if one
// is, together with all that come until it has been answered, in one batch: under
// load that costs both sides a fraction, and without load no time. What has to
// wait does so at the server, in one line with the waiters of all other clients.
//
// If the server refuses a batch for the sake of a key in it, such as one that the
// token does not allow, the others are asked for again without it. For a second,
// who asks for such a key is told the same at once.
//
// # When the server is away
//
// No call takes longer than Config.Timeout, beside the wait that it asks for. If
// there is no answer by then, or one that makes no sense, the Client decides by
// itself: as Config.Away says, by default with a limiter of its own that has a
// Share of each limit it has heard of from the server.
//
// After three failures in a row the server is taken to be away. Then nobody
// waits for it: all is decided here at once, and now and then a request causes a
// probe, in the background, at most one at a time; what the server answers, even
// "no", means that it is back. Config.OnAway and Stats tell.
//
// An answer that the server meant is no failure: it comes to the caller as a
// *weir.Rejection or a *StatusError.
//
// # When not to use it
//
// A limit that one process can keep by itself needs no server: packages rate,
// keyed and inflight decide in a hundredth of the time.
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

// errClosed is what callers of a closed Client get.
var errClosed = weir.Reject(weir.Closed, 0)

// A Client asks one server. It is safe for concurrent use, and starts goroutines
// only while it has something to send, something to wait for, or leases to renew.
type Client struct {
	cfg      Config
	base     *url.URL
	http     *http.Client
	header   http.Header
	unlearnt *keyed.Limiter[string] // nil if keys of which nothing is known have no limit

	ctx       context.Context // ends with errClosed when the Client is closed
	end       context.CancelCauseFunc
	returning context.Context // ends when nothing is given back any more
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

// maxClosing bounds how long Close tells the server what is over.
const maxClosing = time.Second

// Close refuses all callers with weir.Closed from then on, those who wait
// included, ends the contexts of what is held, and returns the leases: for a
// second at most, and only if the server is there. It returns when all goroutines
// have ended. Permits may be released after it, to no effect. Its error is nil.
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
