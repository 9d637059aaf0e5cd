// Package connlimit bounds the connections of an http.Server, and what their requests
// hold, fairly between client addresses.
//
// A client may have as many connections as are free. Beyond that, a new one replaces
// an idle one, of the client itself or of one that has more. If there is none, the new
// connection is refused with 503. So clients that open connections and send nothing, send slowly,
// or wait, keep no other client out.
//
//	l := connlimit.New(ln, 10_000)
//	srv := &http.Server{ConnState: l.ConnState, ConnContext: l.ConnContext, ReadHeaderTimeout: 10 * time.Second}
//	err := srv.Serve(l)
//
// It leaves deadlines to net/http. A [Limit] bounds what requests hold.
package connlimit

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/caller"
)

// A Listener limits the connections that it accepts. It must be closed.
type Listener struct {
	net.Listener
	// Encrypted connections are refused without an answer. It must be set before
	// Accept is called.
	Encrypted bool

	max      int64
	farewell chan struct{} // holds a place for each connection that is being refused

	mu      sync.Mutex // guards what follows
	open    map[*conn]struct{}
	clients map[netip.Addr]*Client // with connections
	idle    queue                  // connections without a request
	counts  Counts
	closed  bool
}

// Counts are the connections of a Listener.
type Counts struct {
	Open    int    // at the moment
	Shed    uint64 // closed while they were idle, to make room
	Refused uint64
}

// New returns a Listener that has at most max connections of ln open.
func New(ln net.Listener, max int) *Listener {
	return &Listener{
		Listener: ln, max: int64(max), farewell: make(chan struct{}, maxFarewells),
		open: map[*conn]struct{}{}, clients: map[netip.Addr]*Client{},
	}
}

// Accept waits for the next connection that is not refused.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, replaced, err := l.admit(accepted)
		if replaced != nil {
			_ = replaced.Conn.Close() // its goroutine sees an error, and calls Close again
		}
		if err != nil {
			_ = accepted.Close()
			return nil, err
		}
		if c != nil {
			return c, nil
		}
		l.refuse(accepted)
	}
}

// admit adds a connection, and returns the one that it replaces. It returns no conn if
// there is no room.
func (l *Listener) admit(accepted net.Conn) (c, replaced *conn, err error) {
	addr := network(accepted.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, net.ErrClosed
	}
	client := l.clients[addr]
	if client == nil {
		client = &Client{addr: addr}
	}
	if !fair(int64(len(l.open))+1, client.conns+1, 1, l.max) {
		if replaced = l.replaceableLocked(client); replaced == nil {
			l.counts.Refused++
			return nil, nil, nil
		}
		l.removeLocked(replaced)
		l.counts.Shed++
	}
	c = &conn{Conn: accepted, listener: l, client: client}
	l.open[c] = struct{}{}
	l.clients[addr] = client
	client.conns++
	l.setIdleLocked(c, true)
	return c, replaced, nil
}

// candidates is how many idle connections are considered for replacement.
const candidates = 16

// replaceableLocked returns the connection that makes room for one of a client. It is
// one of the longest idle, of the client with the most connections; if no other client
// has more, it is the client's own.
func (l *Listener) replaceableLocked(client *Client) *conn {
	best, most := client.idle.first, client.conns
	for c, n := l.idle.first, 0; c != nil && n < candidates; c, n = c.links[ofListener].next, n+1 {
		if c.client.conns > most {
			best, most = c, c.client.conns
		}
	}
	return best
}

func (l *Listener) removeLocked(c *conn) {
	if _, open := l.open[c]; !open {
		return
	}
	delete(l.open, c)
	l.setIdleLocked(c, false)
	if c.client.conns--; c.client.conns == 0 {
		delete(l.clients, c.client.addr)
	}
}

func (l *Listener) setIdleLocked(c *conn, idle bool) {
	if c.idle {
		l.idle.remove(c, ofListener)
		c.client.idle.remove(c, ofClient)
	}
	if c.idle = idle; idle {
		l.idle.push(c, ofListener)
		c.client.idle.push(c, ofClient)
	}
}

// network returns the address that connections are counted by. All connections that do
// not come over IP are of one client.
func network(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return caller.Network(tcp.AddrPort().Addr().Unmap().WithZone(""))
}

const (
	// maxFarewells bounds the connections that are refused with an answer at a time.
	// Others are closed without one.
	maxFarewells = 64
	// farewellTime is for the client to take the answer.
	farewellTime = 500 * time.Millisecond
	farewell     = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
		"Content-Type: application/json\r\nContent-Length: 59\r\n\r\n" +
		`{"error":"too many connections from your address; retry"}` + "\r\n"
)

// refuse answers 503, and closes the connection. It reads what the client sends
// meanwhile: otherwise closing would reset the connection before the client reads the
// answer.
func (l *Listener) refuse(nc net.Conn) {
	if l.Encrypted {
		_ = nc.Close()
		return
	}
	select {
	case l.farewell <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	go func() {
		defer func() { <-l.farewell }()
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(farewellTime))
		if _, err := io.WriteString(nc, farewell); err != nil {
			return
		}
		if tcp, ok := nc.(interface{ CloseWrite() error }); ok && tcp.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, nc)
		}
	}()
}

// ConnState is the ConnState hook of the http.Server. It tells connections with a
// request in progress from idle ones.
func (l *Listener) ConnState(nc net.Conn, state http.ConnState) {
	c := connOf(nc)
	if c == nil || state != http.StateActive && state != http.StateIdle {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.open[c]; !open {
		return
	}
	c.used = true
	l.setIdleLocked(c, state == http.StateIdle)
}

// ConnContext is the ConnContext hook of the http.Server: see ClientOf.
func (l *Listener) ConnContext(ctx context.Context, nc net.Conn) context.Context {
	if c := connOf(nc); c != nil {
		return context.WithValue(ctx, clientKey{}, c.client)
	}
	return ctx
}

// connOf returns the connection of a Listener; nil if it is another's.
func connOf(nc net.Conn) *conn {
	for {
		if c, ok := nc.(*conn); ok {
			return c
		}
		outer, ok := nc.(interface{ NetConn() net.Conn }) // such as a *tls.Conn
		if !ok {
			return nil
		}
		nc = outer.NetConn()
	}
}

// Count returns the number of connections.
func (l *Listener) Count() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.counts
	counts.Open = len(l.open)
	return counts
}

// Max returns the bound.
func (l *Listener) Max() int { return int(l.max) }

// CloseUnused closes the connections that never had a request.
// http.Server.Shutdown would wait five seconds for them.
func (l *Listener) CloseUnused() {
	l.mu.Lock()
	var unused []*conn
	for c := range l.open {
		if !c.used {
			unused = append(unused, c)
		}
	}
	l.mu.Unlock()
	for _, c := range unused {
		_ = c.Close()
	}
}

// Close ends Accept. Open connections stay open. Only the first call does anything.
func (l *Listener) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	return l.Listener.Close()
}

// A conn is a connection of a Listener.
type conn struct {
	net.Conn
	listener *Listener
	client   *Client

	// Guarded by the Listener's mutex.
	idle  bool // it is in the queues
	used  bool // there was a request
	links [queueKinds]links
}

// Close closes the connection and makes room for another.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
