package clients

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A readDeadline is the deadline of the reads from a connection. net/http sets it six times for each
// request, mostly to what does not matter until the next read. To set it at the connection costs more
// than that. So the connection gets it when it reads, and only an earlier one than it has: after
// a deadline that is not the last one set, the read goes on.
type readDeadline struct {
	mu      sync.Mutex // guards the fields below, and is held while the connection gets a deadline
	set     time.Time  // the last one; zero: none
	at      time.Time  // the connection's; zero: none
	known   bool       // at is known: Set or Reset was called
	reading int        // reads in progress
}

// Set sets the deadline.
func (d *readDeadline) Set(c net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set = t
	if !d.known || d.reading > 0 && before(t, d.at) {
		return d.applyLocked(c)
	}
	return nil
}

// Reset notes that another deadline was set at the connection.
func (d *readDeadline) Reset(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set, d.at, d.known = t, t, true
}

// Read reads from the connection until the deadline.
func (d *readDeadline) Read(c net.Conn, b []byte) (int, error) {
	for early := false; ; early = true {
		if err := d.begin(c, early); err != nil {
			return 0, err
		}
		n, err := c.Read(b)
		if again := d.end(n, err); !again {
			return n, err
		}
	}
}

// begin begins a read. Early means that the connection's deadline has passed, and another one was set.
func (d *readDeadline) begin(c net.Conn, early bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if early && d.set != d.at || before(d.set, d.at) || d.at.Equal(longAgo) {
		if err := d.applyLocked(c); err != nil {
			return err
		}
	}
	d.reading++
	return nil
}

// end ends a read, and reports whether it must be repeated.
func (d *readDeadline) end(n int, err error) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading--
	return n == 0 && d.set != d.at && errors.Is(err, os.ErrDeadlineExceeded)
}

func (d *readDeadline) applyLocked(c net.Conn) error {
	d.at, d.known = d.set, true
	return c.SetReadDeadline(d.set)
}

// longAgo is the deadline by which net/http ends a read at once.
var longAgo = time.Unix(1, 0)

// before reports whether deadline a is before b. The zero Time is no deadline.
func before(a, b time.Time) bool {
	return !a.IsZero() && (b.IsZero() || a.Before(b))
}
