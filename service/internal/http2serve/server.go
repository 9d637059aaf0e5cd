// Package http2serve serves the HTTP/2 connections of callers of weir serve. It answers requests
// that never wait on the goroutine that reads their connection, with one write for all requests
// that one read has brought. It relays every other stream to an http.Server, frame by frame, over
// a connection in memory, and hands connections that are not HTTP/2 over to it. docs/http2.md
// describes it.
package http2serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Config configures a Server.
type Config struct {
	// HTTP serves what the Server does not answer itself. Its Handler, ConnContext, ConnState,
	// ErrorLog, MaxHeaderBytes, IdleTimeout, WriteTimeout and HTTP2 apply to all connections.
	// It must speak unencrypted HTTP/2, and must not be used otherwise.
	HTTP *http.Server
	// Immediate reports whether the Handler of HTTP answers a request without waiting. The request
	// has no body yet. Neither Immediate nor the Handler may keep such a request, its URL or texts
	// of its URL after they return, and the Handler must not start goroutines that use them.
	Immediate func(*http.Request) bool
}

// A Server serves connections. It is safe for concurrent use.
type Server struct {
	cfg      Config
	outer    listener     // of connections that are not HTTP/2
	inner    listener     // of connections in memory
	relays   *http.Server // serves inner
	settings settings

	mu     sync.Mutex // guards what follows
	conns  map[*conn]struct{}
	hellos map[net.Conn]struct{} // whose first bytes have not come yet
	ended  bool                  // Shutdown or Close was called
	idle   chan struct{}         // closed when the last of conns has ended after ended
}

// settings are those of connections, in the terms of net/http.
type settings struct {
	maxStreams, maxFrame, maxList, streamBuffer, connBuffer int

	idle, ping, pong, write time.Duration
}

// helloTime bounds the time for the first SETTINGS, as net/http does.
const helloTime = 2 * time.Second

// New returns a Server. All fields of the Config are needed.
func New(cfg Config) *Server {
	public, h2 := cfg.HTTP, cfg.HTTP.HTTP2
	s := &Server{
		cfg: cfg, outer: newListener(), inner: newListener(), conns: map[*conn]struct{}{}, hellos: map[net.Conn]struct{}{}, idle: make(chan struct{}),
		settings: settings{
			maxStreams: h2.MaxConcurrentStreams, maxFrame: h2.MaxReadFrameSize, maxList: public.MaxHeaderBytes + 10*32,
			streamBuffer: h2.MaxReceiveBufferPerStream, connBuffer: h2.MaxReceiveBufferPerConnection,
			idle: public.IdleTimeout, ping: h2.SendPingTimeout, pong: h2.PingTimeout, write: h2.WriteByteTimeout,
		},
	}
	// What is idle, or slow, is so outside.
	bounds := *h2
	bounds.SendPingTimeout, bounds.WriteByteTimeout = 0, 0
	s.relays = &http.Server{
		Handler: public.Handler, ErrorLog: public.ErrorLog, WriteTimeout: public.WriteTimeout, MaxHeaderBytes: public.MaxHeaderBytes,
		DisableGeneralOptionsHandler: public.DisableGeneralOptionsHandler, Protocols: new(http.Protocols), HTTP2: &bounds,
		ConnContext: func(_ context.Context, nc net.Conn) context.Context { return nc.(*innerConn).ctx },
	}
	s.relays.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// Serve serves the connections of a listener until Shutdown or Close is called, or Accept fails. It closes
// the listener.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	failed := make(chan error, 3)
	go func() { failed <- s.cfg.HTTP.Serve(s.outer) }()
	go func() { failed <- s.relays.Serve(s.inner) }()
	go func() { failed <- s.accept(ln) }()
	return <-failed
}

// accept accepts connections, as net/http does.
func (s *Server) accept(ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		if err == nil {
			if !s.addHello(nc) {
				_ = nc.Close()
				return http.ErrServerClosed
			}
			go s.hello(nc)
			continue
		}
		if temporary, ok := errors.AsType[interface {
			error
			Temporary() bool
		}](err); !ok || !temporary.Temporary() {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// hello reads the first bytes of a connection, and finds whether it is HTTP/2.
func (s *Server) hello(nc net.Conn) {
	buf := make([]byte, leastRead)
	n := 0
	for {
		more, err := nc.Read(buf[n:])
		n += more
		if begun := min(n, len(http2.ClientPreface)); string(buf[:begun]) != http2.ClientPreface[:begun] {
			s.removeHello(nc)
			if s.outer.give(&prefixed{Conn: nc, prefix: buf[:n]}) != nil {
				_ = nc.Close()
			}
			return
		}
		if err != nil {
			s.removeHello(nc)
			_ = nc.Close()
			return
		}
		if n >= len(http2.ClientPreface) {
			break
		}
	}
	c := newConn(s, nc, buf, n)
	if s.add(c) {
		c.serve()
	}
}

func (s *Server) addHello(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.hellos[nc] = struct{}{}
	return true
}

func (s *Server) removeHello(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hellos, nc)
}

// add adds a connection, or closes it.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hellos, c.nc)
	if s.ended {
		_ = c.nc.Close()
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.noteIdleLocked()
}

func (s *Server) noteIdleLocked() {
	if !s.ended || len(s.conns) > 0 {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// end stops accepting, and returns the open connections.
func (s *Server) end() (open []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for nc := range s.hellos {
		_ = nc.Close()
	}
	for c := range s.conns {
		open = append(open, c)
	}
	s.noteIdleLocked()
	return open
}

// Shutdown stops accepting, and asks clients to leave by GOAWAY. It waits until the streams of all
// connections are answered, or ctx ends. The listener must be closed before.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.end() {
		go c.leave()
	}
	err := s.cfg.HTTP.Shutdown(ctx)
	select {
	case <-s.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	return errors.Join(err, s.relays.Close())
}

// Close closes all connections.
func (s *Server) Close() error {
	for _, c := range s.end() {
		_ = c.nc.Close()
	}
	return errors.Join(s.cfg.HTTP.Close(), s.relays.Close())
}

// A listener accepts the connections that it is given.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  *sync.Once // closes done
}

func newListener() listener {
	return listener{conns: make(chan net.Conn), done: make(chan struct{}), once: new(sync.Once)}
}

func (l listener) give(nc net.Conn) error {
	select {
	case l.conns <- nc:
		return nil
	case <-l.done:
		return net.ErrClosed
	}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l listener) Addr() net.Addr { return &net.UnixAddr{Name: "http2serve", Net: "memory"} }

// prefixed is a connection whose first bytes were read.
type prefixed struct {
	net.Conn
	prefix []byte
}

func (c *prefixed) Read(b []byte) (int, error) {
	if len(c.prefix) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.prefix)
	if c.prefix = c.prefix[n:]; len(c.prefix) == 0 {
		c.prefix = nil
	}
	return n, nil
}

// NetConn returns the connection below.
func (c *prefixed) NetConn() net.Conn { return c.Conn }
