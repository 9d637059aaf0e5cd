//go:build unix && !aix

package http1client_test

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// An idle connection that the server closes is closed soon, although nothing uses it.
func TestSweep(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{ok}, pieces: 1 << 30}
		client := s.client()
		client.Dial = func(context.Context) (net.Conn, error) { return withSocket{s.dial(), fds[0]}, nil }
		fetch(t, client, newRequest(t, "GET", ""))
		time.Sleep(time.Minute)
		if got := s.got(); !strings.Contains(got, "closed false") {
			t.Error("closed before the server has:", got)
		}
		syscall.Close(fds[1])
		time.Sleep(11 * time.Second)
		if got := s.got(); !strings.Contains(got, "closed true") {
			t.Error(got)
		}
	})
}

// A withSocket is a connection in memory. A Client sees at a socket whether it is quiet.
type withSocket struct {
	net.Conn
	fd int
}

func (c withSocket) SyscallConn() (syscall.RawConn, error) { return socket(c.fd), nil }

type socket int

func (s socket) Control(f func(fd uintptr)) error    { f(uintptr(s)); return nil }
func (s socket) Read(f func(fd uintptr) bool) error  { f(uintptr(s)); return nil }
func (s socket) Write(f func(fd uintptr) bool) error { f(uintptr(s)); return nil }
