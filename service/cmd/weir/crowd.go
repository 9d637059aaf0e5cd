package main

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
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
// It also sees to it that deadlines are met: those that net/http sets for reads,
// and that each write is taken within a time. It looks after all connections every
// now and then, so a deadline may be met a tick late. A request then costs no
// timer, and has no lock in common with others.
type crowd struct {
	net.Listener
	most    int
	timeout time.Duration // of writes
	tick    time.Duration // from one look to the next
	epoch   time.Time
	closed  chan struct{}
	closing sync.Once
	room    chan struct{} // of capacity 1: somebody has left, or has nothing to do
	full    atomic.Bool   // room is to be told of
	looks   atomic.Int64  // so many, and one

	mu    sync.Mutex // guards what follows
	of    map[*member]bool
	quiet []quietness // those without a request when that was last of interest, longest first
	shed  uint64      // closed to make room
}

// A quietness is since when a member is without a request.
type quietness struct {
	*member
	since int64
}

// Bounds on the tick of a crowd, which is an eighth of its timeout.
const (
	leastTick = time.Millisecond
	mostTick  = time.Second
)

// newCrowd returns the crowd of a listener. It must be closed.
func newCrowd(ln net.Listener, most int, timeout time.Duration) *crowd {
	c := &crowd{
		Listener: ln, most: most, timeout: timeout, tick: min(max(timeout/8, leastTick), mostTick), epoch: time.Now(),
		closed: make(chan struct{}), room: make(chan struct{}, 1), of: map[*member]bool{},
	}
	c.looks.Store(1)
	go c.watch()
	return c
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
// has to go first. Once the crowd is closed, nobody comes in.
func (c *crowd) enter(m *member) (out *member, in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return nil, false
	}
	if in = len(c.of) < c.most; in {
		c.full.Store(false)
		c.of[m] = true
		m.since.Store(int64(time.Since(c.epoch)))
		return nil, true
	}
	// First this is set, then each member looked at; who falls quiet notes that
	// first, and then looks at this. One of the two sees what the other did.
	c.full.Store(true)
	if out = c.longestLocked(); out != nil {
		c.shed++
	}
	return out, false
}

// longestLocked returns the member that has been without a request for longest,
// nil if all have one.
func (c *crowd) longestLocked() *member {
	if m := c.nextLocked(); m != nil {
		return m
	}
	for m := range c.of {
		if since := m.since.Load(); since != busy {
			c.quiet = append(c.quiet, quietness{m, since})
		}
	}
	slices.SortFunc(c.quiet, func(a, b quietness) int { return cmp.Compare(a.since, b.since) })
	return c.nextLocked()
}

// nextLocked returns the first of those in quiet that is there still and has had no
// request since it came to be in it, nil if there is none. Who is not in quiet has
// been without a request for less long.
func (c *crowd) nextLocked() *member {
	for len(c.quiet) > 0 {
		q := c.quiet[0]
		c.quiet = c.quiet[1:]
		if c.of[q.member] && q.member.since.Load() == q.since {
			return q.member
		}
	}
	return nil
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
	switch s {
	case http.StateActive:
		m.since.Store(busy)
		m.asked.Store(true)
	case http.StateIdle:
		m.since.Store(int64(time.Since(c.epoch)))
		if c.full.Load() {
			c.tell()
		}
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
		if !m.asked.Load() {
			out = append(out, m)
		}
	}
	c.mu.Unlock()
	for _, m := range out {
		m.Close()
	}
}

// Close ends Accept. The deadlines of those who are there are met as before. Only
// the first call does anything.
func (c *crowd) Close() (err error) {
	c.closing.Do(func() {
		close(c.closed)
		err = c.Listener.Close()
	})
	return err
}

func (c *crowd) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// watch looks after the members, until the crowd is closed and all have left.
func (c *crowd) watch() {
	tick := time.NewTicker(c.tick)
	defer tick.Stop()
	for range tick.C {
		if c.look() {
			return
		}
	}
}

// look interrupts the members that are late, and reports whether there will be
// none any more.
func (c *crowd) look() (over bool) {
	now, look := int64(time.Since(c.epoch)), c.looks.Add(1)
	patience := int64((c.timeout + c.tick - 1) / c.tick)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = nil // lets go of those who have left
	for m := range c.of {
		if by := m.readBy.Load(); by != 0 && by <= now {
			_ = m.interrupt() // of one that is closed already
		}
		if began := m.writing.Load(); began != 0 && look-began > patience {
			_ = m.Conn.SetWriteDeadline(longAgo)
		}
	}
	return len(c.of) == 0 && c.isClosed()
}
