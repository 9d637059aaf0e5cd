//go:build linux

package eventloop_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/eventloop"
)

// serve passes the connections of a listener to accepted, until the test ends.
func serve(t *testing.T, accepted func(eventloop.Conn)) (dial func() *net.TCPConn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	ln, err := eventloop.Listen(plain)
	testrig.Must(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			accepted(nc.(eventloop.Conn))
		}
	}()
	return func() *net.TCPConn {
		t.Helper()
		nc, err := net.Dial("tcp", plain.Addr().String())
		testrig.Must(t, err)
		t.Cleanup(func() { nc.Close() })
		return nc.(*net.TCPConn)
	}
}

// echo is a function for a connection that sends back what it reads, in pieces.
func echo(c eventloop.Conn, ended *atomic.Int64) func() bool {
	b := make([]byte, 1000)
	return func() bool {
		n, err := c.Read(b)
		if err == nil {
			_, err = c.Write(b[:n])
		}
		if err != nil {
			c.Close()
			ended.Add(1)
		}
		return err == nil
	}
}

// attach attaches a connection that must be attached.
func attach(t *testing.T, c eventloop.Conn, ready func() bool) {
	if !c.Attach(ready) {
		t.Error("the connection is not attached")
	}
}

// exchange sends bytes and wants the same bytes back.
func exchange(t *testing.T, c net.Conn, size int) {
	t.Helper()
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	go func() { _, _ = c.Write(want) }()
	got := make([]byte, size)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes come back than were sent, %v", err)
	}
}

// Many connections get what is theirs, and end when their clients end them.
func TestEcho(t *testing.T) {
	const clients = 300
	var ended atomic.Int64
	dial := serve(t, func(c eventloop.Conn) { attach(t, c, echo(c, &ended)) })
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range clients {
		c := dial()
		all.Go(func() {
			for range 20 {
				exchange(t, c, 1+rand.IntN(3000))
			}
		})
	}
	all.Wait()
	testrig.Eventually(t, "connections have no goroutines", func() bool { return runtime.NumGoroutine() < before+clients/2 })
	late := dial()
	exchange(t, late, 10)
	testrig.Must(t, late.CloseWrite())
	if b, err := io.ReadAll(late); err != nil || len(b) > 0 {
		t.Errorf("after the client has sent everything: %q, %v", b, err)
	}
	testrig.Eventually(t, "the end is seen", func() bool { return ended.Load() == 1 })
}

// A client that does not read delays no other one, and gets everything in the end.
func TestWriteThatBlocks(t *testing.T) {
	const size = 32 << 20
	long := bytes.Repeat([]byte("long "), size/5)
	dial := serve(t, func(c eventloop.Conn) {
		var ready func() bool
		ready = func() bool {
			b := make([]byte, 1)
			_, err := c.Read(b)
			if err == nil && b[0] == 'l' {
				_, err = c.Write(long)
			} else if err == nil {
				_, err = c.Write(b)
			}
			return err == nil && c.Attach(ready)
		}
		attach(t, c, ready)
	})
	var slow []*net.TCPConn
	for range 2 * runtime.GOMAXPROCS(0) { // some for each loop
		c := dial()
		_, _ = c.Write([]byte("l"))
		slow = append(slow, c)
	}
	for range 2 * runtime.GOMAXPROCS(0) {
		c := dial()
		for range 10 {
			_, _ = c.Write([]byte("s"))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range slow {
		got := make([]byte, len(long))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, long) {
			t.Errorf("other bytes than were sent, %v", err)
		}
	}
}

// A connection that is detached has deadlines, and can be attached again.
func TestDetach(t *testing.T) {
	var turns atomic.Int64
	var failed atomic.Value
	dial := serve(t, func(c eventloop.Conn) {
		b := make([]byte, 10)
		var ready func() bool
		ready = func() bool {
			if _, err := c.Read(b); err != nil {
				c.Close()
				return false
			}
			turns.Add(1)
			if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
				t.Error(err)
			}
			c.Detach()
			_, err := c.Read(b)
			failed.Store(err)
			_ = c.SetReadDeadline(time.Time{})
			_, _ = c.Write([]byte("late"))
			return c.Attach(ready)
		}
		attach(t, c, ready)
	})
	c := dial()
	for i := range int64(5) {
		_, _ = c.Write([]byte("x"))
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if err := failed.Load().(error); !errors.Is(err, os.ErrDeadlineExceeded) || turns.Load() != i+1 {
			t.Errorf("%v after %d turns", err, turns.Load())
		}
	}
}

// A read that finds nothing detaches the connection, and waits.
func TestReadThatBlocks(t *testing.T) {
	dial := serve(t, func(c eventloop.Conn) {
		var ready func() bool
		ready = func() bool {
			b := make([]byte, 4)
			_, err := io.ReadFull(c, b)
			if err == nil {
				_, err = c.Write(b)
			}
			return err == nil && c.Attach(ready)
		}
		attach(t, c, ready)
	})
	var half []net.Conn
	for range 2 * runtime.GOMAXPROCS(0) { // some for each loop
		c := dial()
		_, _ = c.Write([]byte("ab"))
		half = append(half, c)
	}
	for range 2 * runtime.GOMAXPROCS(0) {
		exchange(t, dial(), 4)
	}
	for _, c := range half {
		_, _ = c.Write([]byte("cd"))
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "abcd" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// Connections can be closed from elsewhere, whatever they do. None gets the bytes of another.
func TestCloseFromElsewhere(t *testing.T) {
	var ended atomic.Int64
	conns := make(chan eventloop.Conn, 100)
	dial := serve(t, func(c eventloop.Conn) {
		attach(t, c, echo(c, &ended))
		conns <- c
	})
	var all sync.WaitGroup
	const clients = 200
	for i := range clients {
		c := dial()
		name := bytes.Repeat([]byte{byte(i)}, 100)
		all.Go(func() {
			b := make([]byte, len(name))
			for {
				if _, err := c.Write(name); err != nil {
					return
				}
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				if !bytes.Equal(b, name) {
					t.Errorf("%d got %d", name[0], b[0])
				}
			}
		})
		closing := <-conns
		all.Go(func() {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			closing.Close()
		})
	}
	all.Wait()
	testrig.Eventually(t, "all functions have seen the end", func() bool { return ended.Load() == clients })
}

// A loop that always has something to do lets goroutines run, and their connections.
func TestBusyLoop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var stop atomic.Bool
	var turns atomic.Int64
	dial := serve(t, func(c eventloop.Conn) {
		attach(t, c, func() bool { // reads nothing, so there is always something
			turns.Add(1)
			return !stop.Load()
		})
	})
	_, _ = dial().Write([]byte("x"))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	defer plain.Close()
	go func() {
		c, err := plain.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	c, err := net.Dial("tcp", plain.Addr().String())
	testrig.Must(t, err)
	defer c.Close()
	for range 100 {
		exchange(t, c, 10)
	}
	stop.Store(true)
	if n := turns.Load(); n > 500_000 {
		t.Errorf("the loop has served connections %d times meanwhile", n)
	}
}

// The loops end with the last connection after the listener has been closed.
func TestEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	ln, err := eventloop.Listen(plain)
	testrig.Must(t, err)
	var ended atomic.Int64
	client, err := net.Dial("tcp", plain.Addr().String())
	testrig.Must(t, err)
	nc, err := ln.Accept()
	testrig.Must(t, err)
	c := nc.(eventloop.Conn)
	attach(t, c, echo(c, &ended))
	ln.Close()
	exchange(t, client, 100)
	client.Close()
	testrig.Eventually(t, "all loops have ended", func() bool { return runtime.NumGoroutine() <= before && ended.Load() == 1 })
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// However many connections are ready, each has its turn.
func TestManyReady(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one loop
	var all sync.WaitGroup
	all.Add(1)
	dial := serve(t, func(c eventloop.Conn) {
		turns := 0
		b := make([]byte, 1)
		attach(t, c, func() bool {
			all.Wait()
			if turns++; turns < 5 {
				return true // and it is ready again
			}
			if _, err := c.Read(b); err != nil {
				return false
			}
			_, err := c.Write(b)
			return err == nil
		})
	})
	var clients []*net.TCPConn
	for range 1000 {
		c := dial()
		_, _ = c.Write([]byte("x"))
		clients = append(clients, c)
	}
	all.Done()
	for _, c := range clients {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute)) // instead of forever
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}
