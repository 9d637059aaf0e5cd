package respapi_test

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/eventloop"
)

// A loopListener makes connections a pretendedConn.
type loopListener struct {
	net.Listener
	detached *atomic.Int64 // counts connections for which Detach was called
}

func (l loopListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pretendedConn{Conn: nc, detached: l.detached}, nil
}

// A pretendedConn is a pipe that is an eventloop.Conn, for virtual time: it has a goroutine, but
// calls ready as a loop does. A Write detaches it, because a pipe has no buffer.
type pretendedConn struct {
	net.Conn
	detached *atomic.Int64
	asked    bool        // Detach was called since Attach
	ready    func() bool // nil if it is not attached
	left     *bool       // set when the goroutine belongs to ready
	in       []byte      // received, and not yet read
	err      error       // of receiving

	mu              sync.Mutex // guards what follows
	attached        bool
	readBy, writeBy time.Time
}

var _ eventloop.Conn = (*pretendedConn)(nil)

func (c *pretendedConn) Attach(ready func() bool) bool {
	if c.ready == nil {
		c.ready, c.asked = ready, false
		c.setAttached(true)
		go c.run(ready)
	}
	return true
}

func (c *pretendedConn) run(ready func() bool) {
	left := false
	c.left = &left
	b := make([]byte, 8<<10)
	for {
		if len(c.in) == 0 && c.err == nil {
			n, err := c.Conn.Read(b)
			c.in, c.err = append(c.in, b[:n]...), err
		}
		open := ready()
		switch {
		case left:
			return
		case !open:
			_ = c.Conn.Close()
			return
		}
	}
}

func (c *pretendedConn) Detach() {
	if !c.asked {
		c.asked = true
		c.detached.Add(1)
	}
	c.detach()
}

func (c *pretendedConn) detach() {
	if c.ready != nil {
		*c.left = true
		c.ready = nil
		c.setAttached(false)
	}
}

// setAttached has the deadlines in force while the connection is not attached.
func (c *pretendedConn) setAttached(attached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached = attached
	read, write := c.readBy, c.writeBy
	if attached {
		read, write = time.Time{}, time.Time{}
	}
	_ = c.Conn.SetReadDeadline(read)
	_ = c.Conn.SetWriteDeadline(write)
}

func (c *pretendedConn) SetReadDeadline(by time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readBy = by; c.attached {
		return nil
	}
	return c.Conn.SetReadDeadline(by)
}

func (c *pretendedConn) SetWriteDeadline(by time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeBy = by; c.attached {
		return nil
	}
	return c.Conn.SetWriteDeadline(by)
}

func (c *pretendedConn) Read(b []byte) (int, error) {
	if len(c.in) > 0 {
		n := copy(b, c.in)
		c.in = c.in[n:]
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	c.detach()
	return c.Conn.Read(b)
}

func (c *pretendedConn) Write(b []byte) (int, error) {
	c.detach()
	return c.Conn.Write(b)
}
