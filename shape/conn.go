package shape

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

type conn struct {
	net.Conn
	reading         deadline
	writing         deadline
	input, output   meter
	turn            chan struct{} // holds one token, of the Write in progress
	settingDeadline sync.Mutex    // so that the connection's deadlines and ours are the same
}

// NewConn returns c, paced by one limiter for Read and another, or the same,
// for Write. A nil limiter does not pace its direction. Like any net.Conn, the
// result is safe for concurrent use; the chunks of concurrent Writes do not mix.
// It starts no goroutine.
//
// A Read reads at most one chunk, and then waits until that is paid for. If the
// deadline passes or Close is called meanwhile, Read returns what it has read,
// and the next Read fails. A Write writes chunk by chunk, after each is paid for,
// and returns how many bytes c took. Deadlines, moved or not, and Close
// end these waits, with a *net.OpError of os.ErrDeadlineExceeded or
// net.ErrClosed; a limiter's error is returned unchanged.
//
// The result has no methods beyond net.Conn's (CloseWrite, ReadFrom,
// SyscallConn), because most of them would bypass the pace, except for
//
//	NetConn() net.Conn
//
// which returns c, as that of a *tls.Conn does.
func NewConn(c net.Conn, read, write Limiter) net.Conn {
	sc := &conn{Conn: c, turn: make(chan struct{}, 1)}
	sc.reading.init("read", c)
	sc.writing.init("write", c)
	sc.input = meter{lim: read, until: sc.reading.context}
	sc.output = meter{lim: write, until: sc.writing.context}
	return sc
}

func (c *conn) Read(p []byte) (int, error) { return c.input.read(c.Conn, p) }

func (c *conn) Write(p []byte) (int, error) {
	if c.output.lim == nil {
		return c.Conn.Write(p)
	}
	if err := c.takeTurn(); err != nil {
		return 0, err
	}
	defer func() { <-c.turn }()
	return c.output.write(c.Conn, p)
}

func (c *conn) takeTurn() error {
	for {
		ctx, err := c.writing.context()
		if err != nil {
			return err
		}
		select {
		case c.turn <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
}

func (c *conn) Close() error {
	c.reading.close()
	c.writing.close()
	return c.Conn.Close()
}

func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, c.Conn.SetDeadline, &c.reading, &c.writing)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, c.Conn.SetReadDeadline, &c.reading)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, c.Conn.SetWriteDeadline, &c.writing)
}

func (c *conn) setDeadline(t time.Time, set func(time.Time) error, ours ...*deadline) error {
	c.settingDeadline.Lock()
	defer c.settingDeadline.Unlock()
	for _, d := range ours {
		d.set(t)
	}
	return set(t)
}

// A deadline ends the waits of one direction, when it passes or at close.
type deadline struct {
	op   string
	conn net.Conn

	mu     sync.Mutex // guards what follows
	ctx    context.Context
	end    context.CancelFunc
	timer  *time.Timer // ends ctx; nil if there is no deadline to come
	closed bool
}

func (d *deadline) init(op string, c net.Conn) {
	d.op, d.conn = op, c
	d.ctx, d.end = context.WithCancel(context.Background())
}

// context returns a context that ends when d passes or is closed or, if that
// has happened, the error. The context has no Deadline: a Limiter would give up
// before it, although the deadline may still be moved.
func (d *deadline) context() (context.Context, error) {
	d.mu.Lock()
	ctx, closed := d.ctx, d.closed
	d.mu.Unlock()
	switch {
	case ctx.Err() == nil:
		return ctx, nil
	case closed:
		return nil, d.error(net.ErrClosed)
	default:
		return nil, d.error(os.ErrDeadlineExceeded)
	}
}

// set moves the deadline. Waits go on under the same context; if that has
// ended, waits that have not seen it end continue under the new one.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ctx.Err() != nil {
		d.ctx, d.end = context.WithCancel(context.Background())
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.end()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == timer { // else it fired while set had the lock
			d.end()
		}
	})
	d.timer = timer
}

func (d *deadline) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.end()
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) error(err error) error {
	e := &net.OpError{Op: d.op, Source: d.conn.LocalAddr(), Addr: d.conn.RemoteAddr(), Err: err}
	if e.Addr != nil {
		e.Net = e.Addr.Network()
	}
	return e
}
