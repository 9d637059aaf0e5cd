package main

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A crowd is the connections of an http.Server: so many at once. Where there are
// as many as may be, one more takes the place of the one that has been without a
// request for longest; who opens connections and says nothing, or says it
// slowly, keeps nobody else out. If all have a request, further ones wait to be
// accepted.
//
// Each write must be taken within a time, or a quarter longer. That stands in for the deadlines of
// http.Server's WriteTimeout, which would bound how long a request of HTTP/1 may
// wait for its turn.
type crowd struct {
	net.Listener
	most    int
	timeout time.Duration
	epoch   time.Time
	closed  chan struct{}
	closing sync.Once
	room    chan struct{} // of capacity 1: somebody has left, or has nothing to do

	mu    sync.Mutex // guards what follows
	of    map[*member]bool
	quiet list.List // of *member, without a request, longest first
	shed  uint64    // closed to make room
}

// A member is a connection in a crowd.
type member struct {
	net.Conn
	crowd *crowd
	quiet *list.Element // nil while it has a request; guarded by crowd.mu
	asked bool          // it has had one; guarded by crowd.mu
	armed atomic.Int64  // when its deadline was set, since the crowd's epoch
}

func newCrowd(ln net.Listener, most int, timeout time.Duration) *crowd {
	return &crowd{
		Listener: ln, most: most, timeout: timeout, epoch: time.Now(),
		closed: make(chan struct{}), room: make(chan struct{}, 1), of: map[*member]bool{},
	}
}

// Accept waits for the next connection, and for room for it.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &member{Conn: conn, crowd: c}
	for {
		out, in := c.enter(m)
		if out != nil {
			out.Close()
		}
		if in {
			return m, nil
		}
		// Whoever leaves or falls quiet after enter has looked finds the channel
		// empty, or filled by another: either way it is not missed.
		select {
		case <-c.room:
		case <-c.closed:
			conn.Close()
			return nil, net.ErrClosed
		}
	}
}

// enter lets a connection in, if there is room, or else returns the one that
// has to go first.
func (c *crowd) enter(m *member) (out *member, in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) < c.most {
		c.of[m] = true
		m.quiet = c.quiet.PushBack(m)
		return nil, true
	}
	if first := c.quiet.Front(); first != nil {
		c.shed++
		return first.Value.(*member), false
	}
	return nil, false
}

// state is for http.Server.ConnState.
func (c *crowd) state(conn net.Conn, s http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	m, ok := conn.(*member)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.of[m]:
	case s == http.StateIdle && m.quiet == nil:
		m.quiet = c.quiet.PushBack(m)
		c.tell()
	case s == http.StateActive && m.quiet != nil:
		c.quiet.Remove(m.quiet)
		m.quiet, m.asked = nil, true
	}
}

// tell tells Accept that there may be room.
func (c *crowd) tell() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// count returns how many connections there are, and how many were closed to
// make room.
func (c *crowd) count() (open int, shed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of), c.shed
}

// dismiss closes the connections that have never asked for anything.
// http.Server.Shutdown would wait for them, for five seconds.
func (c *crowd) dismiss() {
	c.mu.Lock()
	var out []*member
	for m := range c.of {
		if m.quiet != nil && !m.asked {
			out = append(out, m)
		}
	}
	c.mu.Unlock()
	for _, m := range out {
		m.Close()
	}
}

// Close ends Accept. Only the first call does anything.
func (c *crowd) Close() (err error) {
	c.closing.Do(func() {
		close(c.closed)
		err = c.Listener.Close()
	})
	return err
}

// SetWriteDeadline does nothing: each write has its own.
func (m *member) SetWriteDeadline(time.Time) error { return nil }

// Write sets a deadline, unless it was set just before: that costs as much as a
// decision.
func (m *member) Write(b []byte) (int, error) {
	slack := m.crowd.timeout / 4
	if now := time.Since(m.crowd.epoch); m.armed.Load() == 0 || now-time.Duration(m.armed.Load()) > slack {
		m.armed.Store(int64(now))
		if err := m.Conn.SetWriteDeadline(m.crowd.epoch.Add(now + m.crowd.timeout + slack)); err != nil {
			return 0, err
		}
	}
	return m.Conn.Write(b)
}

func (m *member) Close() error {
	c := m.crowd
	c.mu.Lock()
	delete(c.of, m)
	if m.quiet != nil {
		c.quiet.Remove(m.quiet)
		m.quiet = nil
	}
	c.tell()
	c.mu.Unlock()
	return m.Conn.Close()
}
