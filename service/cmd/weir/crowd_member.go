package main

import (
	"net"
	"sync/atomic"
	"time"
)

// A member is a connection in a crowd. Its deadlines are a note of what they are,
// which the crowd looks at.
type member struct {
	net.Conn
	crowd *crowd
	asked atomic.Bool  // it has had a request
	since atomic.Int64 // when it was left without one, on the crowd's clock; busy if it has one

	readBy      atomic.Int64 // the deadline of reads, on the crowd's clock; 0 if there is none
	interrupted atomic.Bool  // reads of Conn may fail
	writing     atomic.Int64 // after which of the crowd's looks a write began; 0 if there is none
}

// busy is since when a member is without a request that has one.
const busy = -1

// longAgo is a deadline that is over.
var longAgo = time.Unix(1, 0)

// SetDeadline is SetReadDeadline, for each write has its own.
func (m *member) SetDeadline(t time.Time) error { return m.SetReadDeadline(t) }

// SetReadDeadline is that of net.Conn, but that a deadline is met when the crowd
// looks for the next time. One before there was the crowd, as net/http sets to
// interrupt a read, is met at once. Of two calls at the same time, either may
// count.
func (m *member) SetReadDeadline(t time.Time) error {
	by := int64(0)
	if !t.IsZero() {
		if by = int64(t.Sub(m.crowd.epoch)); by <= 0 {
			return m.interrupt()
		}
	}
	// If the crowd finds the old deadline over in this moment, it may interrupt what
	// comes after the new one. It is late, then: it may have to go.
	m.readBy.Store(by)
	if m.interrupted.Load() {
		m.interrupted.Store(false)
		return m.Conn.SetReadDeadline(time.Time{})
	}
	return nil
}

// interrupt lets reads fail, until SetReadDeadline.
func (m *member) interrupt() error {
	m.interrupted.Store(true)
	return m.Conn.SetReadDeadline(longAgo)
}

// SetWriteDeadline does nothing: each write has the crowd's timeout. The deadlines of
// http.Server's WriteTimeout would bound how long a request of HTTP/1 may wait for
// its turn.
func (m *member) SetWriteDeadline(time.Time) error { return nil }

// Write fails if what it writes is not taken within the crowd's timeout, and a tick
// or two. One that is late is the last. There must be one at a time, as
// net/http has it.
func (m *member) Write(b []byte) (int, error) {
	m.writing.Store(m.crowd.looks.Load())
	defer m.writing.Store(0)
	return m.Conn.Write(b)
}

// Close leaves the crowd.
func (m *member) Close() error {
	c := m.crowd
	c.mu.Lock()
	delete(c.of, m)
	c.tell()
	c.mu.Unlock()
	return m.Conn.Close()
}
