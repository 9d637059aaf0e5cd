package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/mismatch"
	"github.com/weir-go/weir/service/internal/peer/wire"
)

// A Client is a decider.Decider by which another instance decides. It is safe for
// concurrent use. It must be closed.
//
// If ctx ends before there is an answer, a method returns the error of ctx at once, and the other
// instance is told. If it grants a lease, or tokens to Wait, all the same, the Client gives them
// back. Tokens that it takes for a Decide or a Batch whose caller has left stay taken, except for a
// Decide with WantID.
type Client struct {
	cfg   Config
	url   *url.URL
	epoch time.Time
	pool  callPool
	links []atomic.Pointer[link]
	turn  atomic.Uint32
	again chan struct{} // of capacity 1: see Redial

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	requests, failures, connects, refused atomic.Uint64
	latency                               atomic.Int64

	telling sync.Mutex // held while OnState is called; before mu
	told    State      // guarded by telling

	mu    sync.Mutex // guards what follows
	state State
	up    int   // links
	err   error // of requests while there is no link
}

// New returns a Client that connects in the background, or an error about the Config.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Conns = cmp.Or(cfg.Conns, 1)
	cfg.MaxCalls = cmp.Or(cfg.MaxCalls, DefaultMaxCalls)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	cfg.Silence = cmp.Or(cfg.Silence, DefaultSilence)
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &Client{cfg: cfg, epoch: time.Now(), links: make([]atomic.Pointer[link], cfg.Conns), again: make(chan struct{}, 1), err: wire.ErrUnavailable}
	c.url, _ = url.Parse(cfg.URL) // it is valid
	c.ctx, c.stop = context.WithCancel(context.Background())
	for i := range c.links {
		c.wg.Go(func() { c.keep(&c.links[i]) })
	}
	return c, nil
}

// Close ends the connections. Requests without an answer fail with ErrUnavailable.
func (c *Client) Close() error {
	c.stop()
	c.wg.Wait()
	return nil
}

// State returns the state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Stats returns the counts.
func (c *Client) Stats() Stats {
	st := Stats{
		Requests: c.requests.Load(), Failures: c.failures.Load(), Connects: c.connects.Load(), Refused: c.refused.Load(),
		Latency: time.Duration(c.latency.Load()), State: c.State(),
	}
	for i := range c.links {
		if l := c.links[i].Load(); l != nil {
			l.mu.Lock()
			st.Inflight += l.inflight
			l.mu.Unlock()
		}
	}
	return st
}

func (c *Client) now() time.Duration {
	if c.cfg.Now != nil {
		return c.cfg.Now()
	}
	return time.Since(c.epoch)
}

// took notes the time from a ping to its answer.
func (c *Client) took(d time.Duration) {
	if old := time.Duration(c.latency.Load()); old > 0 {
		d = old + (d-old)/8
	}
	c.latency.Store(int64(max(d, 1)))
}

// pick returns a link, or why there is none.
func (c *Client) pick() (*link, error) {
	first := uint32(0)
	if len(c.links) > 1 {
		first = c.turn.Add(1)
	}
	for i := range uint32(len(c.links)) {
		if l := c.links[(first+i)%uint32(len(c.links))].Load(); l != nil {
			return l, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nil, c.err
}

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	// connectTime bounds the time to connect, in Config.Silence.
	connectTime = 5
	// leaveBackoff is the first pause after the peer has asked to send no more requests.
	leaveBackoff = 250 * time.Millisecond
)

// keep keeps a link.
func (c *Client) keep(at *atomic.Pointer[link]) {
	backoff := minBackoff
	for c.ctx.Err() == nil {
		l, info, err := c.tryConnect()
		if err != nil {
			c.lost(0, err, false)
		} else {
			began := time.Now()
			c.connects.Add(1)
			c.wg.Go(l.run)
			at.Store(l)
			c.found(info)
			err, leaving := l.await()
			at.Store(nil)
			c.lost(1, err, leaving)
			if leaving {
				backoff = leaveBackoff
			} else if time.Since(began) > maxBackoff {
				backoff = minBackoff
			}
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
			backoff = min(2*backoff, maxBackoff)
		case <-c.again:
			backoff = minBackoff
		case <-c.ctx.Done():
		}
	}
}

// Redial ends the pause before the next attempt to connect, and an attempt that takes long: the other instance has shown
// that it can be reached.
func (c *Client) Redial() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// tryConnect makes a link. If the attempt takes longer than Config.Silence, it begins again with the next Redial.
func (c *Client) tryConnect() (l *link, info wire.Info, err error) {
	for {
		ctx, cancel := context.WithCancel(c.ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l, info, err = c.connect(ctx)
		}()
		select {
		case <-done:
		case <-time.After(c.cfg.Silence):
			select {
			case <-c.again: // was called before
			default:
			}
			select {
			case <-done:
			case <-c.again:
				cancel()
				if <-done; err != nil {
					continue
				}
			}
		}
		cancel()
		return l, info, err
	}
}

// await waits until a link takes no more calls.
func (l *link) await() (err error, leaving bool) {
	<-l.gone
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err, l.leaving
	}
	return errLeaving, true
}

// connect makes a link.
func (c *Client) connect(ctx context.Context) (*link, wire.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime*c.cfg.Silence)
	defer cancel()
	conn, err := c.cfg.Dial(ctx, "tcp", address(c.url))
	if err != nil {
		return nil, wire.Info{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	l, info, err := c.greet(ctx, conn)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, info, c.explain(err)
	}
	return l, info, nil
}

// greet makes a link of a connection.
func (c *Client) greet(ctx context.Context, conn net.Conn) (*link, wire.Info, error) {
	if c.url.Scheme == "https" {
		cfg := new(tls.Config)
		if c.cfg.TLS != nil {
			cfg = c.cfg.TLS.Clone()
		}
		cfg.NextProtos, cfg.ServerName = []string{"http/1.1"}, cmp.Or(cfg.ServerName, c.url.Hostname())
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, wire.Info{}, err
		}
		conn = secure
	}
	in, err := upgrade(conn, c.url.Host, cmp.Or(c.cfg.Path, wire.Path), c.cfg.Token)
	if err != nil {
		return nil, wire.Info{}, err
	}
	self := c.cfg.Self
	if c.cfg.Rules != nil {
		self.Rules = c.cfg.Rules().Hash
	}
	mine := wire.NewHello(self, c.cfg.Secret)
	mine.SilenceMS = c.cfg.Silence.Milliseconds()
	s := wire.Handshake{In: wire.NewReader(in), Out: wire.NewWriter(conn), Secret: c.cfg.Secret}
	peer, err := s.GreetServer(mine)
	if err != nil {
		return nil, peer.Info, err
	}
	return newLink(c, conn, s.In, s.Out), peer.Info, nil
}

// explain counts handshakes that were refused, and returns an error that says what is wrong.
func (c *Client) explain(err error) error {
	status, refused := errors.AsType[*statusError](err)
	if errors.Is(err, wire.ErrSecret) || refused && status.status != http.StatusServiceUnavailable {
		c.refused.Add(1)
	}
	return mismatch.Explain(c.url, err)
}

// address returns the host and the port of a URL.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// found notes that there is another link.
func (c *Client) found(peer wire.Info) {
	c.change(func() {
		c.up++
		c.state = State{Up: true, Peer: peer}
	})
}

// lost notes that there are fewer links, or why there is none.
func (c *Client) lost(links int, err error, leaving bool) {
	c.change(func() {
		if c.up -= links; c.up > 0 {
			return
		}
		stillLeaving := !c.state.Up && c.state.Leaving && isStatus(err, http.StatusServiceUnavailable)
		c.state.Up, c.state.Leaving, c.state.Err = false, leaving || stillLeaving, err
		if c.err = err; !errors.Is(err, wire.ErrUnavailable) {
			c.err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
		}
	})
}

func isStatus(err error, status int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.status == status
}

// change changes the state, and tells it.
func (c *Client) change(to func()) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	to()
	now := c.state
	c.mu.Unlock()
	if was := c.told; c.cfg.OnState != nil && (was.Up != now.Up || was.Leaving != now.Leaving || was.Peer != now.Peer || now.Err != nil && (was.Err == nil || was.Err.Error() != now.Err.Error())) {
		c.told = now
		c.cfg.OnState(now)
	}
}
