// Package respapi is the API of weir serve for clients of Redis: RESP2 and RESP3,
// pipelining, and commands in lines.
//
//	CL.THROTTLE key max_burst count period [quantity]    the command of redis-cell
//	WEIR.TAKE key [n]                                    tokens by the rules, and
//	WEIR.WAIT, WEIR.LEASE, WEIR.RENEW, WEIR.RELEASE,     whatever else the HTTP API has
//	WEIR.SETTLE, WEIR.EXPLAIN, WEIR.TOP
//
// Besides these, there are the commands that clients send when they connect. docs/resp.md
// describes all of them.
//
//	api, err := respapi.New(srv, respapi.Config{})
//	...
//	go api.Serve(ln)
//	...
//	api.Shutdown(ctx)
//
// # Connections
//
// A connection has one goroutine, which reads, decides and writes in order. Replies gather
// in a buffer until no further whole command has been received. A command that waits sends
// what is in the buffer, and blocks the later commands of its connection. If its client
// disconnects meanwhile, nothing is granted.
//
// A connection that is an eventloop.Conn has a goroutine only while its client sends much at a
// time, a part of a command or WEIR.TOP, does not take its replies, or waits: see conn.attach.
//
// An idle connection stays open. A command that has begun must end within
// Config.ClientTimeout, and a client must take some of its replies in that time.
package respapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Defaults of Config.
const (
	DefaultMaxKey        = 1 << 10
	DefaultClientTimeout = 10 * time.Second
)

// Config configures an API. The zero value allows every client what token.AuthorizeOpen does.
type Config struct {
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey. An argument of a command has
	// at most 4 KiB more, and a command 8 KiB more than that.
	MaxKey int
	// ClientTimeout bounds the time for a command, from its first byte to its last, and
	// the time in which a client takes 8 KiB of its replies. If zero,
	// DefaultClientTimeout.
	ClientTimeout time.Duration
	// Identify returns the Session of the client with a secret. If nil, clients need no
	// token.
	Identify func(secret string) *token.Session
	// SetIdle, if not nil, is called when a connection becomes idle, and with false when
	// the client has sent something.
	SetIdle func(nc net.Conn, idle bool)
	// Epoch, if not nil, is called when a connection comes, and after the replies to
	// commands. If it returns another number then, the connection ends.
	Epoch func() uint64
	// Blocking says that decisions may block. Then each connection has a goroutine.
	Blocking bool
	// Version is the version of weir that INFO reports.
	Version string
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.MaxKey < 0:
		return fmt.Errorf("respapi: MaxKey = %d: must be >= 0", c.MaxKey)
	case c.ClientTimeout < 0:
		return fmt.Errorf("respapi: ClientTimeout = %v: must be >= 0", c.ClientTimeout)
	}
	return nil
}

// An API serves the clients of Redis. It is safe for concurrent use.
type API struct {
	cfg     Config
	decider decider.Decider
	began   time.Time
	serials atomic.Int64  // of connections
	tops    chan struct{} // holds a place for each WEIR.TOP
	later   sync.Pool     // of *throttles
	buffers sync.Pool     // of *buffers
	closing atomic.Bool
	counts  counts

	mu        sync.Mutex // guards what follows
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
}

// topsAtOnce bounds the calls of WEIR.TOP at a time.
const topsAtOnce = 4

// New returns an API, or an error about the Config.
func New(d decider.Decider, cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.MaxKey = cmp.Or(cfg.MaxKey, DefaultMaxKey)
	cfg.ClientTimeout = cmp.Or(cfg.ClientTimeout, DefaultClientTimeout)
	return &API{
		cfg: cfg, decider: d, began: time.Now(), tops: make(chan struct{}, topsAtOnce),
		later: sync.Pool{New: func() any { return new(throttles) }}, buffers: sync.Pool{New: newBuffers},
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
	}, nil
}

// ErrClosed is the error of Serve after Shutdown.
var ErrClosed = errors.New("respapi: closed")

// Serve serves the connections of a listener until Shutdown, or until Accept fails.
func (a *API) Serve(ln net.Listener) error {
	a.mu.Lock()
	a.listeners[ln] = struct{}{}
	closing := a.closing.Load()
	a.mu.Unlock()
	if closing {
		_ = ln.Close()
	}
	for pause := time.Duration(0); ; {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			a.start(nc)
		case a.closing.Load():
			return ErrClosed
		case !passing(err):
			return err
		default:
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
		}
	}
}

// passing reports whether an error of Accept can pass, such as that of too many open files.
func passing(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

// epoch returns the number of Config.Epoch, 0 without it.
func (a *API) epoch() uint64 {
	if a.cfg.Epoch == nil {
		return 0
	}
	return a.cfg.Epoch()
}

func (a *API) start(nc net.Conn) {
	c := newConn(a, nc)
	a.mu.Lock()
	a.conns[c] = struct{}{}
	a.mu.Unlock()
	if !c.prepare() || !c.attach() {
		go c.serve()
	}
}

func (a *API) remove(c *conn) {
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
}

// Shutdown closes the listeners and idle connections, and waits until the others have ended
// their commands. If ctx ends before, it closes them too, and returns the error of ctx.
func (a *API) Shutdown(ctx context.Context) error {
	a.mu.Lock()
	a.closing.Store(true)
	for ln := range a.listeners {
		_ = ln.Close()
	}
	a.mu.Unlock()
	// A connection can become idle after it has been looked at, so there are more looks.
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for a.endIdle(false) > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			a.endIdle(true)
			return ctx.Err()
		}
	}
	return nil
}

// endIdle ends the connections without a command, or all. It returns how many there are.
func (a *API) endIdle(all bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		if all || c.idle.CompareAndSwap(true, false) {
			_ = c.nc.Close()
		}
	}
	return len(a.conns)
}
