package shape

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A Conn is a net.Conn whose Reads and Writes are paced. Like any net.Conn it
// is safe for concurrent use, and the chunks of concurrent Writes do not
// mingle. It starts no goroutine.
//
// It has none of the methods that some connections have besides net.Conn's
// (CloseWrite, ReadFrom, SyscallConn): most of them would go past the pace.
// NetConn has them.
type Conn struct {
	conn            net.Conn
	reading         deadline
	writing         deadline
	input, output   meter
	turn            chan struct{} // holds one token, that of the Write in progress
	settingDeadline sync.Mutex    // so that conn's deadlines and ours are the same
}

// NewConn returns c, paced by one limiter for Read and another, or the same,
// for Write. One that is nil leaves its direction alone.
func NewConn(c net.Conn, read, write Limiter) *Conn {
	sc := &Conn{conn: c, turn: make(chan struct{}, 1)}
	sc.reading.init("read", c)
	sc.writing.init("write", c)
	sc.input = meter{lim: read, until: sc.reading.context}
	sc.output = meter{lim: write, until: sc.writing.context}
	return sc
}

// Read reads a chunk at most, and then waits until it is paid for. If the
// deadline passes or Close is called meanwhile, Read returns what it has read,
// and the next call fails. An error in a wait is a *net.OpError of
// os.ErrDeadlineExceeded or net.ErrClosed, or the limiter's own.
func (c *Conn) Read(p []byte) (int, error) { return c.input.read(c.conn, p) }

// Write writes p chunk by chunk, each as soon as it is paid for, and returns
// how many bytes of it were taken. Deadline and Close end its waits like
// Read's.
func (c *Conn) Write(p []byte) (int, error) {
	if c.output.lim == nil {
		return c.conn.Write(p)
	}
	if err := c.takeTurn(); err != nil {
		return 0, err
	}
	defer func() { <-c.turn }()
	return c.output.write(c.conn, p)
}

func (c *Conn) takeTurn() error {
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

// Close closes the connection and ends all waits.
func (c *Conn) Close() error {
	c.reading.close()
	c.writing.close()
	return c.conn.Close()
}

// NetConn returns the connection that c paces. To use it for reading or
// writing goes past the pace; a deadline set on it does not end c's waits.
func (c *Conn) NetConn() net.Conn { return c.conn }

// LocalAddr returns the local address of the connection.
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the remote address of the connection.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	c.settingDeadline.Lock()
	defer c.settingDeadline.Unlock()
	c.reading.set(t)
	c.writing.set(t)
	return c.conn.SetDeadline(t)
}

// SetReadDeadline sets the deadline of Reads, those in progress included, and
// of their waits.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.settingDeadline.Lock()
	defer c.settingDeadline.Unlock()
	c.reading.set(t)
	return c.conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of Writes, those in progress included,
// and of their waits.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.settingDeadline.Lock()
	defer c.settingDeadline.Unlock()
	c.writing.set(t)
	return c.conn.SetWriteDeadline(t)
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
// has happened, the error. It has no Deadline of its own: a Limiter would give
// up before it has passed, though it might still be moved.
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
		return nil, d.error(missed())
	}
}

// set moves the deadline. Waits go on under the same context; if that has
// ended, those that have not noticed find the new one.
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

// missed returns os.ErrDeadlineExceeded, which is what every net.Conn wraps,
// from the nearest one: this package does without os.
func missed() error {
	c, _ := net.Pipe()
	_ = c.SetReadDeadline(time.Unix(1, 0))
	_, err := c.Read(nil)
	return errors.Unwrap(err)
}
