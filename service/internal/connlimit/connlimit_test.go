package connlimit

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/testrig"
)

// dial returns both ends of a connection, once it is accepted.
func dial(t *testing.T, ln *testrig.Network, limit *Listener) (client net.Conn, server *conn) {
	t.Helper()
	client, remote := net.Pipe()
	go func() { _ = ln.Connect(t.Context(), remote) }()
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
		steps []step // after connections 0, 1 and 2 have come, where one client may have three
	}{
		{"the first to come is the first to go", []step{{"come", 3, 0}, {"come", 4, 1}, {"come", 5, 2}, {"come", 6, 3}}},
		{"the last request goes last", []step{{"request", 0, 0}, {"answer", 0, 0}, {"come", 3, 1}, {"come", 4, 2}, {"come", 5, 0}}},
		{"a request keeps its connection", []step{{"request", 0, 0}, {"come", 3, 1}, {"come", 4, 2}, {"come", 5, 3}, {"come", 6, 4}}},
		{"a request since another was replaced", []step{{"come", 3, 0}, {"request", 1, 0}, {"answer", 1, 0}, {"come", 4, 2}, {"come", 5, 3}, {"come", 6, 1}}},
		{"a connection that was closed makes room", []step{{"come", 3, 0}, {"leave", 1, 0}, {"come", 4, -1}, {"come", 5, 2}}},
		{"the end of a closed connection's request", []step{{"request", 0, 0}, {"leave", 0, 0}, {"answer", 0, 0}, {"come", 3, -1}, {"come", 4, 1}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ln := testrig.Listen()
			limit := New(ln, 5)
			defer limit.Close()
			var clients []net.Conn
			var conns []*conn
			gone, replaced := map[int]bool{}, uint64(0)
			come := func() {
				client, c := dial(t, ln, limit)
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
			want := Counts{Open: len(conns) - len(gone), Shed: replaced}
			if got := limit.Count(); got != want {
				t.Errorf("%s: %v: want %v", tt.rule, got, want)
			}
			for i := range conns {
				clients[i].Close()
				conns[i].Close()
			}
			if open := limit.Count().Open; open != 0 || limit.idle != (queue{}) || len(limit.clients) != 0 {
				t.Errorf("%s: %d open, %v idle, %d clients after all have closed", tt.rule, open, limit.idle, len(limit.clients))
			}
		})
	}
}

// A crowd has clients at the other end of a Listener.
type crowd struct {
	*testing.T
	ln       *testrig.Network
	limit    *Listener
	accepted chan *conn
}

// come opens a connection from an address. It returns the client's end, and the
// server's; nil if the connection was refused.
func (w *crowd) come(addr string) (net.Conn, *conn) {
	w.Helper()
	client := w.ln.DialFrom(w.T, net.JoinHostPort(addr, "1"))
	synctest.Wait()
	select {
	case c := <-w.accepted:
		return client, c
	default:
		return client, nil
	}
}

// busy opens a connection with a request.
func (w *crowd) busy(addr string) bool {
	_, c := w.come(addr)
	if c != nil {
		w.limit.ConnState(c, http.StateActive)
	}
	return c != nil
}

// gather tests with a Listener of ten connections.
func gather(t *testing.T, test func(*crowd)) {
	synctest.Test(t, func(t *testing.T) {
		ln := testrig.Listen()
		w := &crowd{t, ln, New(ln, 10), make(chan *conn, 100)}
		var all []net.Conn
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := w.limit.Accept()
				if err != nil {
					return
				}
				all = append(all, c)
				w.accepted <- c.(*conn)
			}
		}()
		test(w)
		w.limit.Close()
		<-done
		for _, c := range all {
			c.Close()
		}
	})
}

// Accept never waits for room: without any, a connection gets 503 with Retry-After, and
// the next one is accepted.
func TestRefuse(t *testing.T) {
	gather(t, func(w *crowd) {
		for range 5 {
			if !w.busy("192.0.2.1") {
				w.Fatal("refused")
			}
		}
		client, c := w.come("192.0.2.1")
		if c != nil {
			w.Fatal("a sixth of ten")
		}
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			w.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !json.Valid(body) || err != nil {
			w.Errorf("%v %s %v", resp, body, err)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			w.Errorf("%v: want it closed", err)
		}
		if !w.busy("192.0.2.2") {
			w.Error("a second client is refused")
		}
		if got := w.limit.Count(); got != (Counts{Open: 6, Refused: 1}) {
			w.Errorf("%v", got)
		}
	})
}

// However many connections are refused at once, they take a bounded number of
// goroutines, and none of them reads or writes for long.
func TestRefuseMany(t *testing.T) {
	gather(t, func(w *crowd) {
		for range 5 {
			w.busy("192.0.2.1")
		}
		var clients []net.Conn
		for range 3 * maxFarewells {
			client, _ := w.come("192.0.2.1")
			clients = append(clients, client)
		}
		if n := len(w.limit.farewell); n != maxFarewells {
			w.Errorf("%d are being refused: want %d", n, maxFarewells)
		}
		time.Sleep(farewellTime)
		synctest.Wait()
		if n := len(w.limit.farewell); n != 0 {
			w.Errorf("%d are still being refused", n)
		}
		for i, c := range clients {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				w.Fatalf("%d: %v: want it closed", i, err)
			}
		}
	})
}

// A client's requests do not keep other clients out, as long as there are fewer
// clients than connections.
func TestFair(t *testing.T) {
	gather(t, func(w *crowd) {
		n := map[string]int{}
		for range 20 {
			for _, addr := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"} {
				if w.busy(addr) {
					n[addr]++
				}
			}
		}
		for addr, n := range n {
			if n != 2 {
				w.Errorf("%s: %d connections: want 2", addr, n)
			}
		}
		for _, addr := range []string{"::ffff:192.0.2.1", "2001:db8::2"} {
			if w.busy(addr) {
				w.Errorf("%s counts as another client", addr)
			}
		}
		if !w.busy("192.0.2.9") {
			w.Error("another client is refused")
		}
	})
}

// A client with few connections replaces an idle one of a client with more, and never
// the other way round.
func TestReplaceOthers(t *testing.T) {
	gather(t, func(w *crowd) {
		_, own := w.come("192.0.2.1")
		for range 20 {
			w.come("192.0.2.2")
		}
		w.limit.mu.Lock()
		if n := own.client.conns; n != 1 {
			w.Errorf("%d connections of the client with few: want 1", n)
		}
		w.limit.mu.Unlock()
		for i := range 8 { // other clients take what is free, and more
			w.come(net.IPv4(192, 0, 2, byte(10+i)).String())
		}
		w.limit.mu.Lock()
		defer w.limit.mu.Unlock()
		if n := w.limit.clients[netip.MustParseAddr("192.0.2.2")].conns; own.client.conns != 1 || n != 1 {
			w.Errorf("%d and %d connections: want one each", own.client.conns, n)
		}
	})
}

// A backlog is a listener with a connection that it has accepted before Close.
type backlog struct {
	net.Listener
	conn net.Conn
}

func (b backlog) Accept() (net.Conn, error) { return b.conn, nil }

// After Close, Accept closes connections that were accepted before.
func TestAcceptAfterClose(t *testing.T) {
	client, remote := net.Pipe()
	limit := New(backlog{testrig.Listen(), remote}, 1)
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
	ln := testrig.Listen()
	limit := New(ln, 3)
	defer limit.Close()
	_, unused := dial(t, ln, limit)
	_, used := dial(t, ln, limit)
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

// A client has one share of the connections, by whichever of its addresses it comes. Clients with
// addresses in one network of 64 bits have one each, if that network has the clients of a translator.
func TestSharesOfClients(t *testing.T) {
	const most = 5 // of ten, for one client
	for _, one := range [][]string{
		{"192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1", "2002:c000:201::1", "2002:c000:201:9::1", "2001:0:4136:e378:8000:63bf:3fff:fdfe"},
		{"2001:db8:1:2::1", "2001:db8:1:2:9::1"},
	} {
		gather(t, func(w *crowd) {
			open := 0
			for range 6 {
				for _, address := range one {
					if w.busy(address) {
						open++
					}
				}
			}
			if open != most {
				w.Errorf("%d connections from %v: want %d", open, one, most)
			}
		})
	}
	gather(t, func(w *crowd) {
		for range 5 {
			w.busy("64:ff9b::192.0.2.1")
		}
		if !w.busy("64:ff9b::192.0.2.2") {
			w.Error("another client of the translator is refused")
		}
	})
}

// A trusted proxy may have all connections, because they are of many clients. It does not
// lose idle ones to others as long as these have more than none.
func TestShared(t *testing.T) {
	gather(t, func(w *crowd) {
		w.limit.Shared = func(p caller.Peer) bool { return p.Addr == netip.MustParseAddr("192.0.2.1") }
		for i := range 10 {
			if !w.busy("192.0.2.1") {
				w.Fatalf("connection %d of a proxy is refused", i)
			}
		}
		if w.busy("192.0.2.1") || w.busy("192.0.2.2") {
			w.Error("an eleventh connection")
		}
	})
	gather(t, func(w *crowd) {
		w.limit.Shared = func(p caller.Peer) bool { return p.Addr == netip.MustParseAddr("192.0.2.1") }
		for range 6 {
			w.come("192.0.2.1")
		}
		for range 4 {
			w.come("192.0.2.2")
		}
		for range 3 {
			if !w.busy("192.0.2.1") {
				w.Error("the proxy finds no room beside idle connections of a client")
			}
		}
		if c := w.limit.Count(); c.Open != 10 || c.Shed != 3 {
			w.Errorf("%+v", c)
		}
		w.limit.mu.Lock()
		defer w.limit.mu.Unlock()
		if n := w.limit.clients[netip.MustParseAddr("192.0.2.1")].conns; n != 9 {
			w.Errorf("the proxy has %d connections: want 9", n)
		}
	})
}
