package connlimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

// A pipeListener accepts connections that are in memory.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return nil }

// dial returns both ends of a connection, once it is accepted.
func (l pipeListener) dial(t *testing.T, limit *Listener) (client net.Conn, server *conn) {
	t.Helper()
	client, remote := net.Pipe()
	go func() { l <- remote }()
	c, err := limit.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, c.(*conn)
}

// If there is no room, the connection that is idle for longest is closed.
func TestTheLongestIdleIsReplaced(t *testing.T) {
	type step struct {
		does     string // request, answer, leave; or come, and the connection that it replaces
		conn     int
		replaces int
	}
	for _, tt := range []struct {
		rule  string
		steps []step // after connections 0, 1 and 2 have come, with a limit of three
	}{
		{"the first to come is the first to go", []step{{"come", 3, 0}, {"come", 4, 1}, {"come", 5, 2}, {"come", 6, 3}}},
		{"the last request goes last", []step{{"request", 0, 0}, {"answer", 0, 0}, {"come", 3, 1}, {"come", 4, 2}, {"come", 5, 0}}},
		{"a request keeps its connection", []step{{"request", 0, 0}, {"come", 3, 1}, {"come", 4, 2}, {"come", 5, 3}, {"come", 6, 4}}},
		{"a request since another was replaced", []step{{"come", 3, 0}, {"request", 1, 0}, {"answer", 1, 0}, {"come", 4, 2}, {"come", 5, 3}, {"come", 6, 1}}},
		{"a connection that was closed makes room", []step{{"come", 3, 0}, {"leave", 1, 0}, {"come", 4, -1}, {"come", 5, 2}}},
		{"the end of a closed connection's request", []step{{"request", 0, 0}, {"leave", 0, 0}, {"answer", 0, 0}, {"come", 3, -1}, {"come", 4, 1}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := make(pipeListener)
			limit := New(ln, 3)
			defer limit.Close()
			var clients []net.Conn
			var conns []*conn
			gone, replaced := map[int]bool{}, uint64(0)
			come := func() {
				client, c := ln.dial(t, limit)
				clients, conns = append(clients, client), append(conns, c)
			}
			for range 3 {
				come()
			}
			for i, s := range tt.steps {
				switch s.does {
				case "request":
					limit.ConnState(conns[s.conn], http.StateActive)
				case "answer":
					limit.ConnState(conns[s.conn], http.StateIdle)
				case "leave":
					gone[s.conn] = true
					conns[s.conn].Close()
				case "come":
					come()
					if s.replaces >= 0 {
						gone[s.replaces] = true
						replaced++
					}
				}
				for n, c := range conns {
					if _, open := limit.open[c]; open == gone[n] {
						t.Errorf("%s: step %d: connection %d is open: %t", tt.rule, i, n, open)
					}
				}
			}
			if open, shed := limit.Count(); shed != replaced || open != len(conns)-len(gone) {
				t.Errorf("%s: %d open, %d replaced: want %d, %d", tt.rule, open, shed, len(conns)-len(gone), replaced)
			}
			for i := range conns {
				clients[i].Close()
				conns[i].Close()
			}
			if open, _ := limit.Count(); open != 0 || limit.idle.Len() != 0 {
				t.Errorf("%s: %d open, %d idle after all have closed", tt.rule, open, limit.idle.Len())
			}
		})
	}
}

// If all connections have a request, Accept waits: for an answer, or for a
// connection to close, or for Close.
func TestAcceptWaitsForRoom(t *testing.T) {
	for what, tt := range map[string]struct {
		do   func(*Listener, *conn)
		want error
	}{
		"an answer":          {func(l *Listener, c *conn) { l.ConnState(c, http.StateIdle) }, nil},
		"a closed conn":      {func(_ *Listener, c *conn) { c.Close() }, nil},
		"the Listener's end": {func(l *Listener, _ *conn) { l.Close() }, net.ErrClosed},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := make(pipeListener, 1)
			limit := New(ln, 1)
			defer limit.Close()
			client, c := ln.dial(t, limit)
			defer client.Close()
			limit.ConnState(c, http.StateActive)

			second, remote := net.Pipe()
			defer second.Close()
			ln <- remote
			accepted := make(chan error, 1)
			go func() {
				_, err := limit.Accept()
				accepted <- err
			}()
			synctest.Wait()
			if len(accepted) > 0 {
				t.Fatal("Accept does not wait")
			}
			tt.do(limit, c)
			if err := <-accepted; !errors.Is(err, tt.want) {
				t.Errorf("%s: %v: want %v", what, err, tt.want)
			}
			c.Close()
		})
	}
}

// After Close, Accept closes connections that were accepted before.
func TestAcceptAfterClose(t *testing.T) {
	ln := make(pipeListener, 1)
	limit := New(ln, 1)
	client, remote := net.Pipe()
	ln <- remote
	for range 2 {
		if err := limit.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := limit.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v: want %v", err, net.ErrClosed)
	}
	if _, err := client.Write([]byte("a")); err == nil {
		t.Error("the connection is open")
	}
}

// CloseUnused spares connections that had a request.
func TestCloseUnused(t *testing.T) {
	ln := make(pipeListener)
	limit := New(ln, 3)
	defer limit.Close()
	_, unused := ln.dial(t, limit)
	_, used := ln.dial(t, limit)
	limit.ConnState(used, http.StateActive)
	limit.ConnState(used, http.StateIdle)
	limit.CloseUnused()
	if _, open := limit.open[unused]; open || len(limit.open) != 1 {
		t.Errorf("%d open, the unused one: %t", len(limit.open), open)
	}
}

// A connection keeps the whole contract of net.Conn.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (client, server net.Conn, stop func(), err error) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		limit := New(tcp, 2)
		client, err = net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			return nil, nil, nil, err
		}
		server, err = limit.Accept()
		return client, server, func() { client.Close(); server.Close(); limit.Close() }, err
	})
}

// A request, through a Listener and without one.
func BenchmarkRequest(b *testing.B) {
	for name, limited := range map[string]bool{"limited": true, "plain": false} {
		b.Run(name, func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := &http.Server{
				Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
				ReadHeaderTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
			}
			if limited {
				limit := New(ln, 100)
				ln, srv.ConnState = limit, limit.ConnState
			}
			go func() { _ = srv.Serve(ln) }()
			defer srv.Close()
			b.RunParallel(func(pb *testing.PB) {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer c.Close()
				r := bufio.NewReader(c)
				for pb.Next() {
					if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
						b.Error(err)
						return
					}
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
				}
			})
		})
	}
}
