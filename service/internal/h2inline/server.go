// Package h2inline serves HTTP connections in place of an http.Server. It answers requests
// that never wait on the goroutine that reads their connection, with one write for all requests
// that one read has brought. Over HTTP/2, it answers requests that wait on a separate goroutine each, and relays
// every other stream to net/http, frame by frame, over a connection in memory. It hands a connection
// of HTTP/1.1 over to that with the first other request. Handlers see an http.ResponseWriter. A header value that many answers
// share is sent once: see fieldblock.Encoder. docs/http2.md describes it.
package h2inline

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/h2inline/message"
)

// A Server serves connections. It is safe for concurrent use.
type Server struct {
	http     *http.Server
	fast     func(*http.Request) bool
	single   func(*http.Request) bool
	outer    *pipenet.Listener // of connections that are not HTTP/2
	inner    *pipenet.Listener // of relays
	relays   *http.Server      // serves inner
	settings settings
	date     message.Date

	mu    sync.Mutex // guards what follows
	conns map[*conn]struct{}
	ended bool          // Shutdown or Close was called
	idle  chan struct{} // closed when ended is set and there is no conn
}

// settings has the bounds and time-outs of connections, in the terms of net/http.
type settings struct {
	maxStreams, maxFrame, maxList, streamBuffer, connBuffer int

	idle, ping, pong, write, answer time.Duration
}

// New returns a Server of the Handler of an http.Server, whose ConnContext, ConnState, ErrorLog, MaxHeaderBytes, IdleTimeout,
// WriteTimeout and HTTP2 apply to all connections. It must have all of them, and not be used otherwise. Its Protocols become
// HTTP/1.1: no connection that it gets begins as HTTP/2, and none may become that later.
//
// The Handler answers a request for which fast reports true without waiting. The body of such a request may not have come yet while
// fast runs, but has when the Handler is called. Both must not keep the request, or texts of its path, after they return.
//
// The Handler gives a request without a body, for which fast reports false and single true, a single answer: without Flush, Hijack, or
// a status below 200. single must not keep the request either. The Handler gets a copy.
func New(srv *http.Server, fast, single func(*http.Request) bool) *Server {
	h2 := srv.HTTP2
	s := &Server{
		http: srv, fast: fast, single: single,
		outer: pipenet.Listen(), inner: pipenet.Listen(), conns: map[*conn]struct{}{}, idle: make(chan struct{}),
		settings: settings{
			maxStreams: h2.MaxConcurrentStreams, maxFrame: h2.MaxReadFrameSize, maxList: srv.MaxHeaderBytes + 10*32,
			streamBuffer: h2.MaxReceiveBufferPerStream, connBuffer: h2.MaxReceiveBufferPerConnection,
			idle: srv.IdleTimeout, ping: h2.SendPingTimeout, pong: h2.PingTimeout, write: h2.WriteByteTimeout, answer: srv.WriteTimeout,
		},
	}
	bounds := *h2
	bounds.SendPingTimeout, bounds.WriteByteTimeout = 0, 0 // the connection of the client has them
	s.relays = &http.Server{
		Handler: srv.Handler, ErrorLog: srv.ErrorLog, WriteTimeout: srv.WriteTimeout, MaxHeaderBytes: srv.MaxHeaderBytes,
		DisableGeneralOptionsHandler: srv.DisableGeneralOptionsHandler, Protocols: new(http.Protocols), HTTP2: &bounds,
		ConnContext: func(_ context.Context, nc net.Conn) context.Context { return nc.(*innerConn).outer.ctx },
	}
	s.relays.Protocols.SetUnencryptedHTTP2(true)
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	return s
}

// Serve serves the connections of a listener until Shutdown or Close is called, or Accept fails. It closes
// the listener.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	failed := make(chan error, 3)
	go func() { failed <- s.http.Serve(s.outer) }()
	go func() { failed <- s.relays.Serve(s.inner) }()
	go func() { failed <- s.accept(ln) }()
	return <-failed
}

// accept accepts connections. After errors that pass, it tries again.
func (s *Server) accept(ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		if err == nil {
			go s.serve(newConn(s, nc))
			continue
		}
		passing, ok := errors.AsType[interface {
			error
			Temporary() bool
		}](err)
		if !ok || !passing.Temporary() {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// serve serves a connection, or hands it over if it does not begin as HTTP/2.
func (s *Server) serve(c *conn) {
	if !s.add(c) {
		_ = c.nc.Close()
		return
	}
	defer s.remove(c)
	for c.w < len(http2.ClientPreface) {
		n, err := c.nc.Read(c.buf[c.w:])
		c.w += n
		if begun := min(c.w, len(http2.ClientPreface)); string(c.buf[:begun]) != http2.ClientPreface[:begun] {
			c.serveHTTP1()
			return
		}
		if err != nil {
			c.cancel()
			_ = c.nc.Close()
			return
		}
	}
	c.r = len(http2.ClientPreface)
	c.serve()
}

// add adds a connection, and reports whether it is served.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.conns[c] = struct{}{}
	}
	return !s.ended
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.ended && len(s.conns) == 0 {
		close(s.idle)
	}
}

// end stops serving new connections, and returns the others.
func (s *Server) end() (open []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.conns) == 0 {
		close(s.idle)
	}
	s.ended = true
	for c := range s.conns {
		open = append(open, c)
	}
	return open
}

// Shutdown asks clients to leave by GOAWAY, and waits until all streams are answered, or ctx ends. The
// listener must be closed before.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.end() {
		go c.leave()
	}
	err := s.http.Shutdown(ctx)
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
	return errors.Join(s.http.Close(), s.relays.Close())
}

// prefixed is a connection of which the first bytes were read.
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
