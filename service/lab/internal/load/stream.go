package load

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"sync"
)

// connections is the number of connections that the requests share, except over HTTP.
const connections = 4

// A conn is a connection to the target, with a goroutine that reads it.
type conn struct {
	net.Conn
	awaited chan chan<- reply // one for each reply that is still to come, in their order; nil if there are no replies
	ended   chan struct{}     // closed at the end

	mu   sync.Mutex  // guards what follows
	err  error       // why the conn has ended; set before ended is closed
	stop func() bool // do not end with the run
}

// end closes the connection, and returns why it has ended.
func (c *conn) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.ended)
		c.stop()
		_ = c.Close()
	}
	return c.err
}

// write writes a whole message within the deadline of ctx, or ends the connection: the
// target could not tell where the next message begins. If answer is not nil, it receives
// the reply; it needs room for one.
func (c *conn) write(ctx context.Context, message []byte, answer chan<- reply) error {
	if answer != nil {
		select {
		case c.awaited <- answer:
		case <-c.ended:
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	deadline, _ := ctx.Deadline()
	err := c.SetWriteDeadline(deadline)
	if err == nil {
		_, err = c.Write(message)
	}
	if err != nil {
		return c.end(err)
	}
	return nil
}

// A stream is a connection that is made when a request needs it, and again after it has
// ended. Requests write to it one at a time.
type stream struct {
	run  context.Context // the connection ends with it
	dial func(context.Context) (net.Conn, error)
	// start prepares a new connection. It may write to it, and start to read it.
	start func(context.Context, *conn) error

	turn chan struct{} // of capacity 1, full while a request connects or writes; guards what follows
	conn *conn         // nil before the first request
}

func newStreams(run context.Context, cfg Config, u *url.URL, network string, start func(context.Context, *conn) error) (streams [connections]*stream) {
	dial := func(ctx context.Context) (net.Conn, error) { return cfg.Dial(ctx, network, u.Host) }
	if u.Scheme == "rediss" {
		dial = func(ctx context.Context) (net.Conn, error) { return dialTLS(ctx, cfg, network, u) }
	}
	for i := range streams {
		streams[i] = &stream{run: run, dial: dial, start: start, turn: make(chan struct{}, 1)}
	}
	return streams
}

func dialTLS(ctx context.Context, cfg Config, network string, u *url.URL) (net.Conn, error) {
	raw, err := cfg.Dial(ctx, network, u.Host)
	if err != nil {
		return nil, err
	}
	config := cfg.TLS.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, nil
}

// send writes a message, as conn.write does, and returns the connection.
func (s *stream) send(ctx context.Context, message []byte, answer chan<- reply) (*conn, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // a write would end the connection
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s.conn, s.conn.write(ctx, message, answer)
}

// connect makes a connection if there is none.
func (s *stream) connect(ctx context.Context) error {
	if s.conn != nil {
		select {
		case <-s.conn.ended:
		default:
			return nil
		}
	}
	raw, err := s.dial(ctx)
	if err != nil {
		return err
	}
	c := &conn{Conn: raw, ended: make(chan struct{})}
	c.mu.Lock()
	c.stop = context.AfterFunc(s.run, func() { _ = c.end(s.run.Err()) })
	c.mu.Unlock()
	if err := s.start(ctx, c); err != nil {
		_ = c.end(err)
		return err
	}
	s.conn = c
	return nil
}

// closeStreams closes the connections, after the last request.
func closeStreams(streams [connections]*stream) {
	for _, s := range streams {
		if s.conn != nil {
			_ = s.conn.end(net.ErrClosed)
		}
	}
}
