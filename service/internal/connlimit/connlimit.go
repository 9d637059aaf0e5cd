// Package connlimit bounds the connections of an http.Server. While there are as
// many as allowed, a new connection replaces the one that has been idle for longest,
// so clients that open connections and send nothing, or send it slowly, keep no
// other client out. If every connection has a request in progress, new ones wait to be
// accepted.
//
//	l := connlimit.New(ln, 10_000)
//	srv := &http.Server{ConnState: l.ConnState, ReadHeaderTimeout: 10 * time.Second}
//	err := srv.Serve(l)
//
// It leaves deadlines to net/http.
package connlimit

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// A Listener limits the connections that it accepts. It must be closed.
type Listener struct {
	net.Listener
	max int

	mu     sync.Mutex // guards what follows
	room   sync.Cond  // signaled when a connection becomes idle or closes, and when the Listener closes
	open   map[*conn]struct{}
	idle   list.List // of *conn without a request, idle for longest first
	shed   uint64    // closed to make room
	closed bool
}

// New returns a Listener that has at most max connections of ln open.
func New(ln net.Listener, max int) *Listener {
	l := &Listener{Listener: ln, max: max, open: map[*conn]struct{}{}}
	l.room.L = &l.mu
	return l
}

// Accept waits for the next connection, and for room for it.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l}
	replaced, err := l.admit(c)
	if replaced != nil {
		_ = replaced.Conn.Close() // its goroutine sees an error, and calls Close again
	}
	if err != nil {
		_ = accepted.Close()
		return nil, err
	}
	return c, nil
}

// admit adds a connection, and returns the one that it replaces.
func (l *Listener) admit(c *conn) (replaced *conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && len(l.open) >= l.max && l.idle.Len() == 0 {
		l.room.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	if len(l.open) >= l.max {
		replaced = l.idle.Front().Value.(*conn)
		l.removeLocked(replaced)
		l.shed++
	}
	l.open[c] = struct{}{}
	c.idle = l.idle.PushBack(c)
	return replaced, nil
}

func (l *Listener) removeLocked(c *conn) {
	delete(l.open, c)
	l.setBusyLocked(c)
}

func (l *Listener) setBusyLocked(c *conn) {
	if c.idle != nil {
		l.idle.Remove(c.idle)
		c.idle = nil
	}
}

// ConnState is the ConnState hook of the http.Server. It tells connections with a
// request in progress from idle ones.
func (l *Listener) ConnState(nc net.Conn, state http.ConnState) {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, ok := nc.(*conn)
	if !ok || state != http.StateActive && state != http.StateIdle {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.open[c]; !open {
		return
	}
	l.setBusyLocked(c)
	if state == http.StateActive {
		c.used = true
		return
	}
	c.idle = l.idle.PushBack(c)
	l.room.Signal()
}

// Count returns the number of open connections, and how many were closed to make
// room for others.
func (l *Listener) Count() (open int, shed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open), l.shed
}

// Max returns the bound.
func (l *Listener) Max() int { return l.max }

// CloseUnused closes the connections that never had a request.
// http.Server.Shutdown would wait five seconds for them.
func (l *Listener) CloseUnused() {
	l.mu.Lock()
	var unused []*conn
	for c := range l.open {
		if !c.used {
			unused = append(unused, c)
		}
	}
	l.mu.Unlock()
	for _, c := range unused {
		_ = c.Close()
	}
}

// Close ends Accept. Open connections stay open. Only the first call does anything.
func (l *Listener) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	if closed {
		return nil
	}
	return l.Listener.Close()
}

// A conn is a connection of a Listener.
type conn struct {
	net.Conn
	listener *Listener

	// Guarded by the Listener's mutex.
	idle *list.Element // nil while there is a request
	used bool          // there was a request
}

// Close closes the connection and makes room for another.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.room.Signal()
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
