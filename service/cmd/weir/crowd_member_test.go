package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Pipes are a listener to which connections come that are in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return nil }

// dial returns both ends of a connection once it is accepted.
func (p pipes) dial(t *testing.T, c *crowd) (client net.Conn, m *member) {
	t.Helper()
	client, server := net.Pipe()
	go func() { p <- server }()
	conn, err := c.Accept()
	fatal(t, err)
	return client, conn.(*member)
}

// end closes the crowd and waits until nobody looks after it any more: all have
// left.
func (c *crowd) end() {
	c.Close()
	time.Sleep(c.tick)
	synctest.Wait()
}

// Deadlines are met, a tick late at most.
func TestCrowdDeadlines(t *testing.T) {
	const (
		timeout = 8 * time.Second
		tick    = time.Second
	)
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	read := func(m *member) error { _, err := m.Read(make([]byte, 1)); return err }
	write := func(m *member) error { _, err := m.Write([]byte("a")); return err }
	later := func(d time.Duration, do func()) { time.AfterFunc(d, do) }
	for _, tt := range []struct {
		rule        string
		do          func(m *member, client net.Conn) error
		least, most time.Duration
		late        bool // it ends with os.ErrDeadlineExceeded
	}{
		{"a read has until its deadline", func(m *member, _ net.Conn) error {
			_ = m.SetReadDeadline(in(3500 * time.Millisecond))
			return read(m)
		}, 3500 * time.Millisecond, 3500*time.Millisecond + tick, true},
		{"a deadline of both counts for reads", func(m *member, _ net.Conn) error {
			_ = m.SetDeadline(in(3 * time.Second))
			return read(m)
		}, 3 * time.Second, 3 * time.Second, true},
		{"also once the crowd is closed", func(m *member, _ net.Conn) error {
			_ = m.crowd.Close()
			time.Sleep(time.Minute)
			_ = m.SetReadDeadline(in(3 * time.Second))
			return read(m)
		}, time.Minute + 3*time.Second, time.Minute + 3*time.Second, true},
		{"the last deadline counts", func(m *member, _ net.Conn) error {
			_ = m.SetReadDeadline(in(3 * time.Second))
			later(2*time.Second, func() { _ = m.SetReadDeadline(in(time.Minute)) })
			return read(m)
		}, time.Minute, time.Minute + 2*time.Second + tick, true},
		{"no deadline, no end", func(m *member, client net.Conn) error {
			_ = m.SetReadDeadline(in(3 * time.Second))
			later(2*time.Second, func() { _ = m.SetReadDeadline(time.Time{}) })
			later(time.Hour, func() { _, _ = client.Write([]byte("a")) })
			return read(m)
		}, time.Hour, time.Hour, false},
		{"a deadline long ago is met at once", func(m *member, _ net.Conn) error {
			later(100*time.Millisecond, func() { _ = m.SetReadDeadline(time.Unix(1, 0)) })
			return read(m)
		}, 100 * time.Millisecond, 100 * time.Millisecond, true},
		{"who was interrupted may read again", func(m *member, client net.Conn) error {
			_ = m.SetReadDeadline(in(time.Second))
			_ = m.SetReadDeadline(time.Unix(1, 0))
			_ = m.SetReadDeadline(time.Time{})
			later(time.Minute, func() { _, _ = client.Write([]byte("a")) })
			return read(m)
		}, time.Minute, time.Minute, false},
		{"who was late may have another deadline", func(m *member, client net.Conn) error {
			_ = m.SetReadDeadline(in(time.Second))
			if err := read(m); err == nil {
				return err
			}
			_ = m.SetReadDeadline(in(time.Hour))
			later(time.Minute, func() { _, _ = client.Write([]byte("a")) })
			return read(m)
		}, time.Minute + time.Second, time.Minute + time.Second + tick, false},
		{"a write has the timeout, whatever the deadline", func(m *member, _ net.Conn) error {
			time.Sleep(1500 * time.Millisecond)
			_ = m.SetDeadline(in(time.Second))
			_ = m.SetWriteDeadline(in(time.Second))
			return write(m)
		}, 1500*time.Millisecond + timeout, 1500*time.Millisecond + timeout + tick, true},
		{"each write has it anew", func(m *member, client net.Conn) error {
			for range 3 {
				later(timeout-time.Millisecond, func() { _, _ = client.Read(make([]byte, 1)) })
				if err := write(m); err != nil {
					return err
				}
			}
			time.Sleep(time.Hour)
			later(time.Millisecond, func() { _, _ = client.Read(make([]byte, 1)) })
			return write(m)
		}, time.Hour + 3*timeout - 2*time.Millisecond, time.Hour + 3*timeout - 2*time.Millisecond, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := make(pipes)
			c := newCrowd(ln, 1, timeout)
			defer c.end()
			client, m := ln.dial(t, c)
			defer client.Close()
			defer m.Close()
			start := time.Now()
			err := tt.do(m, client)
			if took := time.Since(start); took < tt.least || took > tt.most || errors.Is(err, os.ErrDeadlineExceeded) != tt.late {
				t.Errorf("%s: %v after %v: want it late: %t, after %v to %v", tt.rule, err, took, tt.late, tt.least, tt.most)
			}
		})
	}
}

// A counted is a connection that counts what it is asked for.
type counted struct {
	net.Conn
	deadlines int
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.deadlines++
	return c.Conn.SetReadDeadline(t)
}

func (c *counted) SetWriteDeadline(t time.Time) error {
	c.deadlines++
	return c.Conn.SetWriteDeadline(t)
}

// What net/http sets for each request of HTTP/1.1 is a note, but for the
// interruption of a read and its end.
func TestCrowdRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(pipes)
		c := newCrowd(ln, 1, time.Minute)
		defer c.end()
		client, m := ln.dial(t, c)
		defer client.Close()
		defer m.Close()
		counts := &counted{Conn: m.Conn}
		m.Conn = counts
		go func() { _, _ = io.Copy(io.Discard, client) }()
		const requests = 10
		for range requests {
			request(m)
		}
		if counts.deadlines != 2*requests {
			t.Errorf("%d deadlines for %d requests: want two for each", counts.deadlines, requests)
		}
	})
}

// request does to a connection in a crowd what net/http does for a request of HTTP/1.1,
// but does not read.
func request(m *member) {
	m.crowd.state(m, http.StateActive)
	_ = m.SetReadDeadline(time.Time{}) // the body has been read
	_, _ = m.Write([]byte("answer"))
	_ = m.SetReadDeadline(time.Unix(1, 0)) // it does not matter any more whether it leaves
	_ = m.SetReadDeadline(time.Time{})
	_ = m.SetWriteDeadline(time.Time{})
	m.crowd.state(m, http.StateIdle)
	_ = m.SetReadDeadline(time.Now().Add(2 * time.Minute))
	_ = m.SetReadDeadline(time.Now().Add(10 * time.Second))
}

// A deaf is a connection whose writes cost nothing.
type deaf struct{ net.Conn }

func (deaf) Write(b []byte) (int, error) { return len(b), nil }

// What a request costs beside its reads and writes.
func BenchmarkCrowd(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(b, err)
	c := newCrowd(ln, 1, 10*time.Second)
	defer c.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	fatal(b, err)
	defer client.Close()
	conn, err := c.Accept()
	fatal(b, err)
	defer conn.Close()
	m := conn.(*member)
	m.Conn = deaf{m.Conn}
	for b.Loop() {
		request(m)
	}
}

// Whatever the timeout, the crowd is not looked at all the time, nor hardly ever.
func TestCrowdTick(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, 800 * time.Millisecond: 100 * time.Millisecond, time.Hour: time.Second,
	} {
		c := newCrowd(make(pipes), 1, timeout)
		if c.tick != want {
			t.Errorf("timeout %v: a tick of %v: want %v", timeout, c.tick, want)
		}
		c.Close()
	}
}

// Where there is no room, whoever has been without a request for longest goes:
// however often others had one meanwhile.
func TestCrowdOrder(t *testing.T) {
	type step struct {
		does string // asks, rests; or comes, and who goes then
		who  int
		goes int
	}
	for _, tt := range []struct {
		rule  string
		steps []step // after 0, 1 and 2 have come, in a crowd of three
	}{
		{"who came first", []step{{"comes", 3, 0}, {"comes", 4, 1}, {"comes", 5, 2}, {"comes", 6, 3}}},
		{"who asked last goes last", []step{{"asks", 0, 0}, {"rests", 0, 0}, {"comes", 3, 1}, {"comes", 4, 2}, {"comes", 5, 0}}},
		{"who asks stays", []step{{"asks", 0, 0}, {"comes", 3, 1}, {"comes", 4, 2}, {"comes", 5, 3}, {"comes", 6, 4}}},
		{"who has asked since others went", []step{{"comes", 3, 0}, {"asks", 1, 0}, {"rests", 1, 0}, {"comes", 4, 2}, {"comes", 5, 3}, {"comes", 6, 1}}},
		{"who has left goes no more", []step{{"comes", 3, 0}, {"leaves", 1, 0}, {"comes", 4, -1}, {"comes", 5, 2}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := make(pipes)
			c := newCrowd(ln, 3, time.Hour)
			defer c.end()
			var clients []net.Conn
			var members []*member
			gone, goes := map[int]bool{}, uint64(0)
			come := func() {
				client, m := ln.dial(t, c)
				clients, members = append(clients, client), append(members, m)
			}
			for range 3 {
				come()
				time.Sleep(time.Millisecond)
			}
			for i, s := range tt.steps {
				switch s.does {
				case "asks":
					c.state(members[s.who], http.StateActive)
				case "rests":
					c.state(members[s.who], http.StateIdle)
				case "leaves":
					gone[s.who] = true
					members[s.who].Close()
				case "comes":
					come()
					if s.goes >= 0 {
						gone[s.goes] = true
						goes++
					}
				}
				for who, m := range members {
					c.mu.Lock()
					in := c.of[m]
					c.mu.Unlock()
					if in == gone[who] {
						t.Errorf("%s: step %d: %d is there: %t", tt.rule, i, who, in)
					}
				}
				time.Sleep(time.Millisecond)
			}
			c.look()
			if len(c.quiet) > 0 {
				t.Errorf("%s: %d are kept, whether they have left or not", tt.rule, len(c.quiet))
			}
			if _, shed := c.count(); shed != goes {
				t.Errorf("%s: %d made room: want %d", tt.rule, shed, goes)
			}
			for i := range members {
				clients[i].Close()
				members[i].Close()
			}
		})
	}
}

// Who closes the crowd lets nobody in any more, not even who was accepted before.
func TestCrowdIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(pipes)
		c := newCrowd(ln, 1, time.Second)
		fatal(t, c.Close())
		client, server := net.Pipe()
		c.Listener = pipes(make(chan net.Conn, 1))
		c.Listener.(pipes) <- server
		if _, err := c.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v: want %v", err, net.ErrClosed)
		}
		if _, err := client.Write([]byte("a")); err == nil {
			t.Error("it is open still")
		}
		c.end()
	})
}
