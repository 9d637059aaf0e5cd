package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
)

// A tap records what a connection carries.
type tap struct {
	net.Conn
	text *testrig.Buffer
}

func (c tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_, _ = c.text.Write(b[:n])
	return n, err
}

func (c tap) Write(b []byte) (int, error) {
	_, _ = c.text.Write(b)
	return c.Conn.Write(b)
}

// Only instances with the same secret, or both without one, are connected. Both sides know why not,
// and the secret is never sent.
func TestSecret(t *testing.T) {
	other := []byte("another secret of a fleet")
	for _, row := range []struct {
		name         string
		mine, theirs []byte
		err, refused string // parts of the errors at the Client and at the Handler; empty: none
	}{
		{"same", secret, secret, "", ""},
		{"none", nil, nil, "", ""},
		{"other", secret, other, "the peer has another secret: it refuses this instance", "the peer has another secret: its proof is wrong"},
		{"only mine", secret, nil, "the peer has another secret: it refuses this instance", "it has one, and this instance has none"},
		{"only theirs", nil, secret, "the peer has another secret: it refuses this instance", "it has none, and this instance has one"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var mu sync.Mutex
				var refused []string
				s := newSite(t, serve.Config{Secret: row.theirs, OnRefused: func(from net.Addr, err error) {
					mu.Lock()
					defer mu.Unlock()
					if !errors.Is(err, wire.ErrSecret) || from == nil {
						t.Errorf("%v from %v", err, from)
					}
					refused = append(refused, err.Error())
				}})
				var sent testrig.Buffer
				c, err := peer.New(peer.Config{URL: "http://weir", Secret: row.mine, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := s.network.Dial(ctx, network, address)
					return tap{conn, &sent}, err
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				synctest.Wait()
				st, at := c.Stats(), s.Stats()
				mu.Lock()
				defer mu.Unlock()
				if text := sent.String(); strings.Contains(text, string(secret)) || strings.Contains(text, string(other)) || len(text) < 300 {
					t.Errorf("sent: %q", text)
				}
				if row.err == "" {
					if !st.State.Up || len(refused) > 0 || st.Refused+at.Refused > 0 {
						t.Errorf("%+v %+v %q", st, at, refused)
					}
					return
				}
				if st.State.Up || !errors.Is(st.State.Err, wire.ErrSecret) || !strings.Contains(st.State.Err.Error(), row.err) || st.Refused != 1 {
					t.Errorf("%+v", st)
				}
				if len(refused) != 1 || !strings.Contains(refused[0], row.refused) || at.Refused != 1 || at.Conns != 0 {
					t.Errorf("%q %+v", refused, at)
				}
			})
		})
	}
}

// A server that does not know the secret cannot pass for one that does, by sending back what it got.
func TestReflectedProof(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, err := peer.New(peer.Config{URL: "http://weir", Secret: secret, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go mirror(server)
			return client, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		if st := c.Stats(); st.State.Up || !errors.Is(st.State.Err, wire.ErrSecret) || st.Refused != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// mirror upgrades a connection, and sends back all that comes.
func mirror(c net.Conn) {
	defer c.Close()
	b := make([]byte, 4<<10)
	if _, err := c.Read(b); err != nil {
		return
	}
	if _, err := c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: weir-peer/1\r\n\r\n")); err != nil {
		return
	}
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// Requests that are not for this protocol are refused before the connection is upgraded.
func TestRefusesRequests(t *testing.T) {
	denied := errors.New("no certificate")
	for _, row := range []struct {
		name, method, upgrade string
		allow                 error
		leave                 bool
		status                int
		text                  string
	}{
		{"another version", "GET", "weir-peer/2", nil, false, 426, `speaks weir-peer/1: want it in the header Upgrade, over HTTP/1.1, not "weir-peer/2". If that is a later version of the protocol, upgrade this instance first`},
		{"a newer version too", "GET", "weir-peer/2, weir-peer/1", nil, false, 500, "upgraded"}, // a recorder cannot be
		{"no upgrade", "GET", "", nil, false, 426, "weir-peer/1"},
		{"a method", "POST", "weir-peer/1", nil, false, 405, "GET"},
		{"not allowed", "GET", "weir-peer/1", denied, false, 403, "no certificate"},
		{"leaving", "GET", "weir-peer/1", nil, true, 503, "shutting down"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHandler(t, serve.Config{Decider: newServer(t, server.Config{}), Allow: func(*http.Request) error { return row.allow }})
			if row.leave {
				h.Leave()
			}
			r := httptest.NewRequest(row.method, wire.Path, nil)
			if row.upgrade != "" {
				r.Header.Set("Connection", "upgrade")
				r.Header.Set("Upgrade", row.upgrade)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.text) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if w.Code == 426 && w.Header().Get("Upgrade") != "weir-peer/1" {
				t.Errorf("%v", w.Header())
			}
		})
	}
}

// A Client of a server without the protocol, or with another version, says so.
func TestOtherServer(t *testing.T) {
	for _, row := range []struct {
		status int
		text   string
	}{{404, `status 404 to GET /-/peer: "no such endpoint"`}, {426, "status 426"}, {200, "status 200"}} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, serve.Config{})
			s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Error(w, "no such endpoint", row.status)
			})
			c := s.dial(peer.Config{})
			if st := c.Stats(); st.State.Up || st.State.Err == nil || !strings.Contains(st.State.Err.Error(), row.text) || st.Refused != 1 {
				t.Errorf("%+v", st)
			}
			if _, err := decide(c, "a", 1); !errors.Is(err, wire.ErrUnavailable) || !strings.Contains(err.Error(), row.text) {
				t.Error(err)
			}
		})
	}
}

// idle opens connections that ask for the protocol, and send no hello.
func (s *site) idle(n int) {
	s.t.Helper()
	for range n {
		conn, err := s.network.Dial(s.t.Context(), "tcp", "weir")
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { conn.Close() })
		go func() {
			_, _ = conn.Write([]byte("GET /-/peer HTTP/1.1\r\nHost: weir\r\nConnection: Upgrade\r\nUpgrade: weir-peer/1\r\n\r\n"))
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
	synctest.Wait()
}

// Connections that send no hello keep no peer out, although all of them have its address: a peer that is
// restarted connects at once.
func TestIdleHandshakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reasons := make(chan string, 1000)
		s := newSite(t, serve.Config{Secret: secret, OnRefused: func(_ net.Addr, err error) { reasons <- err.Error() }})
		for i := range 3 {
			s.idle(200)
			c := s.dial(peer.Config{Secret: secret})
			if st := c.State(); !st.Up {
				t.Fatalf("start %d: %+v", i, st)
			}
			c.Close()
			synctest.Wait()
		}
		if n := len(reasons); n != 3*200-63 { // the peer has replaced one
			t.Fatalf("%d handshakes have ended", n)
		}
		if reason := <-reasons; !strings.Contains(reason, "newer") {
			t.Error(reason)
		}
		time.Sleep(10 * time.Second)
		if n := len(reasons); n != 3*200-1 {
			t.Errorf("%d of 599 idle handshakes have ended", n)
		}
		if st := s.Stats(); st.Conns != 0 || st.Refused != 600 {
			t.Errorf("%+v", st)
		}
	})
}

// Handlers have a bound on connections.
func TestMaxConns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{MaxConns: 1})
		first, second := s.dial(peer.Config{}), s.dial(peer.Config{})
		if a, b := first.State(), second.State(); !a.Up || b.Up || !strings.Contains(b.Err.Error(), "too many connections of peers") {
			t.Errorf("%+v %+v", a, b)
		}
		first.Close()
		time.Sleep(3 * time.Second)
		if st := second.State(); !st.Up {
			t.Errorf("%+v", st)
		}
	})
}

// Configurations are checked.
func TestValidate(t *testing.T) {
	d := newServer(t, server.Config{})
	for _, row := range []struct {
		cfg  peer.Config
		text string
	}{
		{peer.Config{URL: "weir-1:8080"}, "URL"},
		{peer.Config{URL: "ftp://weir-1"}, `URL = "ftp://weir-1": must be http`},
		{peer.Config{URL: "http://a", Conns: -1}, "Conns = -1: must be >= 0"},
		{peer.Config{URL: "http://a", MaxCalls: -1}, "MaxCalls = -1"},
		{peer.Config{URL: "http://a", MaxBytes: -1}, "MaxBytes = -1"},
		{peer.Config{URL: "http://a", Silence: -1}, "Silence = -1"},
		{peer.Config{URL: "http://a", Secret: []byte("short")}, "Secret has 5 bytes: must have at least 16"},
	} {
		if c, err := peer.New(row.cfg); err == nil || !strings.Contains(err.Error(), row.text) {
			c.Close()
			t.Errorf("%+v: %v", row.cfg, err)
		}
	}
	for _, row := range []struct {
		cfg  serve.Config
		text string
	}{
		{serve.Config{}, "Decider = nil"},
		{serve.Config{Decider: d, MaxWaiting: -1}, "MaxWaiting = -1"},
		{serve.Config{Decider: d, MaxConns: -1}, "MaxConns = -1"},
		{serve.Config{Decider: d, Secret: []byte("short")}, "Secret has 5 bytes"},
	} {
		if _, err := serve.New(row.cfg); err == nil || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%+v: %v", row.cfg, err)
		}
	}
}
