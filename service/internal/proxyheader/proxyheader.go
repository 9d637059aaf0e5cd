// Package proxyheader accepts connections through proxies that send the header of the PROXY
// protocol, version 1 or 2, before the bytes of their client. Such a connection has the
// address of the client.
//
// Only trusted proxies may send the header, and they must send it. Other connections pass as
// they come, so a header of an untrusted client is an invalid request.
//
// Headers are read beside Accept, so that a slow proxy delays no other connection. Their
// number and time are bounded.
package proxyheader

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/weir-go/weir/internal/caller"
)

const (
	// maxPending bounds the connections that wait for the rest of their header.
	maxPending = 1024
	// bufferSize is enough for a header of version 1 and most of version 2.
	bufferSize = 512
)

// Config configures a Listener.
type Config struct {
	// Trusted reports whether a peer is a proxy that sends the header.
	Trusted func(caller.Peer) bool
	// Timeout bounds the time for the whole header.
	Timeout time.Duration
	// Failed, if not nil, is called for each trusted proxy that sends no valid header, or
	// none in time.
	Failed func(from net.Addr, err error)
}

// A Listener accepts connections through proxies. It must be closed.
type Listener struct {
	net.Listener
	cfg     Config
	start   sync.Once
	ready   chan accepted
	pending chan struct{} // holds a place for each header that is being read
	closed  chan struct{}
	close   sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// New returns a Listener of the connections of ln.
func New(ln net.Listener, cfg Config) *Listener {
	return &Listener{
		Listener: ln, cfg: cfg, ready: make(chan accepted), pending: make(chan struct{}, maxPending), closed: make(chan struct{}),
	}
}

// Accept waits for the next connection. One from a trusted proxy is accepted when its header has been
// read, any other as it comes.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.run() })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. A connection that waits for the rest of its header is closed after the
// header, or at its time-out.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// run accepts connections until the Listener is closed.
func (l *Listener) run() {
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err != nil:
			if !l.hand(accepted{err: err}) || errors.Is(err, net.ErrClosed) {
				return
			}
		case !l.cfg.Trusted(caller.PeerOf(nc.RemoteAddr())):
			l.hand(accepted{conn: nc})
		default:
			select {
			case l.pending <- struct{}{}:
				go l.read(nc)
			default:
				l.failed(nc, errors.New("too many connections wait for a header of the PROXY protocol"))
			}
		}
	}
}

// hand gives a connection to Accept. It closes it if the Listener is closed.
func (l *Listener) hand(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.closed:
		if a.conn != nil {
			_ = a.conn.Close()
		}
		return false
	}
}

// read reads the header of a connection.
func (l *Listener) read(nc net.Conn) {
	defer func() { <-l.pending }()
	_ = nc.SetReadDeadline(time.Now().Add(l.cfg.Timeout))
	c, err := readHeader(nc)
	if err == nil {
		err = nc.SetReadDeadline(time.Time{})
	}
	if err != nil {
		l.failed(nc, err)
		return
	}
	l.hand(accepted{conn: c})
}

func (l *Listener) failed(nc net.Conn, err error) {
	from := nc.RemoteAddr()
	_ = nc.Close()
	if l.cfg.Failed != nil {
		l.cfg.Failed(from, err)
	}
}

// readHeader reads a header, and returns the connection after it.
func readHeader(nc net.Conn) (net.Conn, error) {
	r := bufio.NewReaderSize(nc, bufferSize)
	h, err := proxyproto.Read(r)
	if err != nil {
		return nil, fmt.Errorf("no header of the PROXY protocol: %w", err)
	}
	c := &conn{Conn: nc, rest: r, from: nc.RemoteAddr(), to: nc.LocalAddr()}
	if h.Command.IsLocal() { // the proxy itself, such as a health check
		return c, nil
	}
	tcp, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("header of the PROXY protocol: the client's address is %v: must be one of TCP", h.SourceAddr)
	}
	c.from, c.to = tcp, h.DestinationAddr
	return c, nil
}

// A conn is a connection after its header.
type conn struct {
	net.Conn
	rest *bufio.Reader // what came with the header; nil when it is read
	from net.Addr
	to   net.Addr
}

// Read reads what came with the header, then from the connection.
func (c *conn) Read(b []byte) (int, error) {
	if c.rest != nil {
		if c.rest.Buffered() > 0 {
			return c.rest.Read(b[:min(len(b), c.rest.Buffered())])
		}
		c.rest = nil
	}
	return c.Conn.Read(b)
}

// RemoteAddr returns the address of the client.
func (c *conn) RemoteAddr() net.Addr { return c.from }

// LocalAddr returns the address to which the client has connected. Without it, the client would seem to be at
// the Unix socket of its proxy.
func (c *conn) LocalAddr() net.Addr { return c.to }

// NetConn returns the connection within.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the side that writes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
