// Package connlimit bounds the connections of a server, such as an http.Server, and what
// their requests hold, fairly between client addresses.
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
// A connection over which a client sends many HTTP/2 frames that are no requests, such as
// pings, settings and resets, is read more slowly, so that a flood of them takes little
// processor time. The Listener ends TLS, because it must see the frames. The http.Server
// must have UnencryptedHTTP2 for that.
//
// It leaves deadlines to net/http. A [Limit] bounds what requests hold.
package connlimit

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/eventloop"
)

// A Listener limits the connections that it accepts. It must be closed.
type Listener struct {
	net.Listener
	// TLS, if not nil, is the configuration of handshakes. It must be set before Accept
	// is called. Connections are refused without an answer then.
	TLS *tls.Config
	// Farewell answers a connection that is refused. If empty, HTTP/1.1 with status 503.
	// It must be set before Accept is called.
	Farewell string
	// Failed, if not nil, is called for each handshake that fails. It must be set before
	// Accept is called.
	Failed func(from net.Addr, err error)
	// HelloTime bounds the time for the first bytes of a connection, handshake
	// included. If zero, it is not bounded. It must be set before Accept is called.
	HelloTime time.Duration
	// Shared, if not nil, reports whether a peer is a proxy. Connections of a proxy carry
	// requests of many clients, so it may have all connections. It must be set before Accept is called.
	Shared func(caller.Peer) bool
	// MaxAge, if > 0, is how long a connection lives until Outlived reports true, give or take a
	// tenth at random: connections that came together do not leave together. It must be set
	// before Accept is called.
	MaxAge time.Duration

	max      int64
	farewell chan struct{} // holds a place for each connection that is being refused

	mu      sync.Mutex // guards what follows
	open    map[*conn]struct{}
	clients map[netip.Addr]*Client // with connections
	idle    queue                  // connections without a request
	counts  Counts
	closed  bool

	delayed atomic.Uint64
}

// Counts are the connections of a Listener.
type Counts struct {
	Open    int    // at the moment
	Shed    uint64 // closed while they were idle, to make room
	Refused uint64
	Delayed uint64 // reads, because of too many frames
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
			replaced.cut() // its goroutine sees an error, and calls Close
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
	addr, shared := l.clientAddr(accepted.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, net.ErrClosed
	}
	client := l.clients[addr]
	if client == nil {
		client = &Client{addr: addr, shared: shared}
	}
	if !fair(int64(len(l.open))+1, client.share()+1, 1, l.max) {
		if replaced = l.replaceableLocked(client); replaced == nil {
			l.counts.Refused++
			return nil, nil, nil
		}
		l.removeLocked(replaced)
		l.counts.Shed++
	}
	c = &conn{Conn: accepted, raw: accepted, listener: l, client: client, closed: make(chan struct{})}
	if l.TLS != nil {
		c.tls = tls.Server(accepted, l.TLS)
		c.Conn = c.tls
	}
	if l.MaxAge > 0 {
		c.expires = time.Now().Add(l.MaxAge - l.MaxAge/10 + rand.N(l.MaxAge/5+1))
	}
	if l.HelloTime > 0 {
		_ = c.SetReadDeadline(time.Now().Add(l.HelloTime)) // net/http sets the next one
	}
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
	best, most := client.idle.first, client.share()
	for c, n := l.idle.first, 0; c != nil && n < candidates; c, n = c.links[ofListener].next, n+1 {
		if c.client.share() > most {
			best, most = c, c.client.share()
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

// clientAddr returns the address that connections are counted by, and whether it is Shared.
// All connections that do not come over IP are of one client.
func (l *Listener) clientAddr(a net.Addr) (addr netip.Addr, shared bool) {
	peer := caller.PeerOf(a)
	if l.Shared != nil && l.Shared(peer) {
		return peer.Addr, true
	}
	return caller.Client(peer.Addr), false
}

const (
	// maxFarewells bounds the connections that are refused with an answer at a time.
	// Others are closed without one.
	maxFarewells = 64
	// farewellTime is for the client to take the answer.
	farewellTime = 500 * time.Millisecond
	httpFarewell = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
		"Content-Type: application/json\r\nContent-Length: 59\r\n\r\n" +
		`{"error":"too many connections from your address; retry"}` + "\r\n"
)

// refuse answers with the farewell, and closes the connection. It reads what the client sends
// meanwhile: otherwise closing would reset the connection before the client reads the
// answer.
func (l *Listener) refuse(nc net.Conn) {
	if l.TLS != nil {
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
		if _, err := io.WriteString(nc, cmp.Or(l.Farewell, httpFarewell)); err != nil {
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
	if state == http.StateActive || state == http.StateIdle {
		l.SetIdle(nc, state == http.StateIdle)
	}
}

// SetIdle tells whether a connection is idle, for servers of other protocols than HTTP. A
// connection is idle at first.
func (l *Listener) SetIdle(nc net.Conn, idle bool) {
	c := connOf(nc)
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.open[c]; !open {
		return
	}
	c.used = true
	l.setIdleLocked(c, idle)
}

// ConnContext is the ConnContext hook of the http.Server: see ClientOf.
func (l *Listener) ConnContext(ctx context.Context, nc net.Conn) context.Context {
	return Context(ctx, nc)
}

// Context returns a context of the requests of a connection: see ClientOf.
func Context(ctx context.Context, nc net.Conn) context.Context {
	if c := connOf(nc); c != nil {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// Outlived reports whether the connection of a request is older than MaxAge. The context is that
// of ConnContext or of the request. It is for httpserve.Leave, which lets requests in progress
// finish.
func Outlived(ctx context.Context) bool {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c != nil && !c.expires.IsZero() && time.Now().After(c.expires)
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
	counts.Open, counts.Delayed = len(l.open), l.delayed.Load()
	return counts
}

// Max returns the bound.
func (l *Listener) Max() int { return int(l.max) }

// CloseUnused closes the connections that never had a request.
// http.Server.Shutdown would wait five seconds for them.
func (l *Listener) CloseUnused() { l.closeIf(func(c *conn) bool { return !c.used }) }

// CloseOpen closes all connections.
func (l *Listener) CloseOpen() { l.closeIf(func(*conn) bool { return true }) }

// closeIf closes some connections. It calls some with the mutex held.
func (l *Listener) closeIf(some func(*conn) bool) {
	l.mu.Lock()
	var list []*conn
	for c := range l.open {
		if some(c) {
			list = append(list, c)
		}
	}
	l.mu.Unlock()
	for _, c := range list {
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
	raw      net.Conn // Conn, without TLS
	listener *Listener
	client   *Client
	tls      *tls.Conn // nil without TLS
	expires  time.Time // zero without MaxAge
	shaken   bool      // the handshake is over
	frames   frames
	owes     debt
	http2    atomic.Bool // counted in client.pays
	closed   chan struct{}
	once     sync.Once // closes closed

	// Guarded by the Listener's mutex.
	idle  bool // it is in the queues
	used  bool // there was a request
	links [queueKinds]links
}

// Read reads what the client sends. After frames that cost more than the client has paid for,
// it pauses.
func (c *conn) Read(b []byte) (int, error) {
	if c.tls != nil && !c.shaken {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(b)
	if c.frames.off || n == 0 {
		return n, err
	}
	begun := c.frames.begun()
	cost := c.frames.read(b[:n])
	if !begun && c.frames.begun() {
		c.countHTTP2()
	}
	if cost > 0 {
		c.pause(c.client.pays.pay(&c.owes, cost, time.Now()))
	}
	return n, err
}

// countHTTP2 counts the connection as one that speaks HTTP/2, until it is closed.
func (c *conn) countHTTP2() {
	c.client.pays.conns.Add(1)
	c.http2.Store(true)
	select {
	case <-c.closed: // meanwhile
		c.uncountHTTP2()
	default:
	}
}

func (c *conn) uncountHTTP2() {
	if c.http2.Swap(false) {
		c.client.pays.conns.Add(-1)
	}
}

// Attach implements eventloop.Conn. A connection with TLS cannot be attached.
func (c *conn) Attach(ready func() bool) bool {
	loop, ok := c.Conn.(eventloop.Conn)
	return ok && loop.Attach(ready)
}

// Detach implements eventloop.Conn.
func (c *conn) Detach() {
	if loop, ok := c.Conn.(eventloop.Conn); ok {
		loop.Detach()
	}
}

// pause waits, but not for longer than the connection is open.
func (c *conn) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	c.Detach()
	c.listener.delayed.Add(1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	}
}

// handshake is called by the first Read. Handshakes that fail are told to the listener.
func (c *conn) handshake() error {
	c.shaken = true
	err := c.tls.Handshake()
	if err == nil {
		return nil
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && c.listener.Farewell == "" {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	if c.listener.Failed != nil {
		c.listener.Failed(c.RemoteAddr(), err)
	}
	return err
}

// Close closes the connection and makes room for another.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.mu.Unlock()
	c.once.Do(func() { close(c.closed) })
	c.uncountHTTP2()
	return c.Conn.Close()
}

// cut ends the connection at once, without a word to the client.
func (c *conn) cut() {
	c.once.Do(func() { close(c.closed) })
	_ = c.raw.Close()
}
