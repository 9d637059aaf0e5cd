package connlimit

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/caller"
)

// A Kind is something that clients hold, and that a Limit bounds.
type Kind uint8

// The Kinds. Each is counted separately for each client.
const (
	Waiting   Kind = iota // requests that wait for their turn
	Deciding              // requests that do not wait
	Settling              // requests that settle, renew or give back what the client has
	Debugging             // requests that read the state of many keys
	Bodies                // bytes of batches, with their requests, and of large requests for the rate-limit service
	LongLived             // exchanges of a proxy that have left its limit
	kinds
)

var kindNames = [kinds]string{"waiting", "deciding", "settling", "debugging", "bodies", "long_lived"}

func (k Kind) String() string { return kindNames[k] }

// A Client is where connections come from: an address as of caller.Client, or Unix sockets.
type Client struct {
	addr  netip.Addr // invalid for Unix sockets
	held  [kinds]atomic.Int64
	pays  budget
	conns int64 // guarded by the Listener's mutex
	// shared is set for a proxy: its connections carry requests of many clients.
	shared bool
	idle   queue // its connections without a request; guarded by the Listener's mutex
}

// share returns the number of connections that count as the client's share.
func (c *Client) share() int64 {
	if c.shared {
		return 0
	}
	return c.conns
}

// A Limit bounds how many places all clients together hold, and shares them fairly: a
// client gets a place only if it holds fewer than are free. So one client holds at
// most half of all places, two hold a third each, and there is a place for a client
// that holds none (S. Choudhury and E. Hahne, Dynamic Queue Length Thresholds,
// 1998). It is safe for concurrent use.
type Limit struct {
	kind    Kind
	max     int64
	used    atomic.Int64
	refused atomic.Uint64
	unknown Client // stands for the client of requests that came through no Listener

	mu     sync.Mutex             // guards behind
	behind map[netip.Addr]*Client // clients of trusted proxies that hold places
}

// NewLimit returns a Limit of a number of places, at least one.
func NewLimit(kind Kind, places int64) *Limit {
	return &Limit{kind: kind, max: max(places, 1)}
}

// fair reports whether a client may hold another n places, where used and held include
// them already.
func fair(used, held, n, places int64) bool { return used+held <= places+n }

// Enter takes n places for a client, and reports whether it may. If so, Leave must
// follow. A nil Client stands for all requests that came through no Listener.
func (l *Limit) Enter(c *Client, n int64) bool {
	if c == nil {
		c = &l.unknown
	}
	if !fair(l.used.Add(n), c.held[l.kind].Add(n), n, l.max) {
		l.Leave(c, n)
		l.refused.Add(1)
		return false
	}
	return true
}

// Leave gives n places back.
func (l *Limit) Leave(c *Client, n int64) {
	if c == nil {
		c = &l.unknown
	}
	c.held[l.kind].Add(-n)
	l.used.Add(-n)
}

// Kind returns what the Limit bounds.
func (l *Limit) Kind() Kind { return l.kind }

// Count returns the number of places, how many are taken, and how often Enter has
// refused.
func (l *Limit) Count() (places, used int64, refused uint64) {
	return l.max, l.used.Load(), l.refused.Load()
}

// EnterFrom takes n places for a client of a trusted proxy, by the address of the client. If it
// returns true, LeaveFrom must follow.
func (l *Limit) EnterFrom(client netip.Addr, n int64) bool {
	client = caller.Client(client)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.behind[client]
	if c == nil {
		c = &Client{addr: client}
	}
	if !l.Enter(c, n) {
		return false
	}
	if l.behind == nil {
		l.behind = map[netip.Addr]*Client{}
	}
	l.behind[client] = c
	return true
}

// LeaveFrom gives n places back.
func (l *Limit) LeaveFrom(client netip.Addr, n int64) {
	client = caller.Client(client)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.behind[client]
	l.Leave(c, n)
	if c.held[l.kind].Load() == 0 {
		delete(l.behind, client)
	}
}

type connKey struct{}

// ClientOf returns the Client of a request's context; nil if there is none.
func ClientOf(ctx context.Context) *Client {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.client
	}
	return nil
}

// Secure reports whether a request came over TLS to a Listener. Package http does not know of that TLS, so
// that Request.TLS is nil.
func Secure(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	return ok && c.tls != nil
}
