package httpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/throttle"
)

// dial returns a client of a real server, and its Transport.
func dial(t *testing.T, cfg Config, srv *httptest.Server) (*http.Client, *Transport) {
	t.Helper()
	cfg.Base = srv.Client().Transport
	tr, err := New(cfg)
	testrig.Must(t, err)
	t.Cleanup(srv.Close)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, tr
}

// The same over HTTP/1.1 and HTTP/2.
func overBoth(t *testing.T, h http.Handler, test func(t *testing.T, srv *httptest.Server)) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != version {
					t.Errorf("%s", r.Proto)
				}
				h.ServeHTTP(w, r)
			}))
			if srv.EnableHTTP2 = version == "HTTP/2.0"; srv.EnableHTTP2 {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			test(t, srv)
		})
	}
}

// A body of 1 MB, sent again after two refusals, arrives whole.
func TestWireABodyIsSentAgain(t *testing.T) {
	question := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var asked atomic.Int64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(b, question) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		if asked.Add(1)%3 != 0 {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		w.Write(b)
	})
	overBoth(t, h, func(t *testing.T, srv *httptest.Server) {
		client, tr := dial(t, Config{Retry: throttle.RetryConfig{Backoff: -1}}, srv)
		resp, err := client.Post(srv.URL, "text/plain", bytes.NewReader(question))
		testrig.Must(t, err)
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || err != nil || !bytes.Equal(b, question) {
			t.Errorf("%s, %d bytes, %v", resp.Status, len(b), err)
		}
		if st := tr.Stats(); st.Sent != 3 || st.Retried != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// With a limit of one, the next request goes when the body of the last is read:
// a retry does not wait for itself.
func TestWireTheLimitHoldsUntilTheBodyIsRead(t *testing.T) {
	var inside, most atomic.Int64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inside.Add(1)))
		if r.URL.Path == "/busy" { // refused at once, so that the retry comes
			inside.Add(-1)
			w.WriteHeader(503)
		} else {
			defer inside.Add(-1)
		}
		w.Write([]byte("half"))
		http.NewResponseController(w).Flush()
		w.Write([]byte("half"))
	})
	overBoth(t, h, func(t *testing.T, srv *httptest.Server) {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Queue: 100, MaxWait: time.Minute})
		testrig.Must(t, err)
		client, _ := dial(t, Config{PerHost: limitBy(lim), Retry: throttle.RetryConfig{Backoff: -1}}, srv)
		done := make(chan string)
		const clients = 20
		for i := range clients {
			go func() {
				url := srv.URL
				if i%4 == 0 {
					url += "/busy"
				}
				resp, err := client.Get(url)
				if err != nil {
					done <- err.Error()
					return
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				done <- fmt.Sprint(string(b), err)
			}()
		}
		for range clients {
			if got := <-done; got != "halfhalf<nil>" {
				t.Error(got)
			}
		}
		if st := lim.Stats(); st.Inflight != 0 || most.Load() != 1 {
			t.Errorf("%d at a time; %+v", most.Load(), st)
		}
	})
}

// A connection that changes its protocol can be written to, and is in flight
// until it is closed.
func TestWireAnUpgradeStaysInFlight(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, line)
	}))
	lim := new(testrig.Limiter)
	client, _ := dial(t, Config{PerHost: limitBy(lim)}, srv)
	r := get(context.Background(), srv.URL)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := client.Do(r)
	testrig.Must(t, err)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != 101 {
		t.Fatalf("%s, %T", resp.Status, resp.Body)
	}
	io.WriteString(conn, "hello\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if got := state(lim); got != "1 held, []" {
		t.Error(got)
	}
	conn.Close()
	if got := state(lim); got != "0 held, [success]" {
		t.Error(got)
	}
}

func TestWireARefusedConnectionIsTriedAgain(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	lim := new(testrig.Limiter)
	client, tr := dial(t, Config{Retry: throttle.RetryConfig{Backoff: -1}, PerHost: limitBy(lim)}, srv)
	srv.Close()
	_, err := client.Post(srv.URL, "text/plain", strings.NewReader("question"))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if st := tr.Stats(); st.Sent != 3 || state(lim) != "0 held, [dropped dropped dropped]" {
		t.Errorf("%s; %+v", state(lim), st)
	}
}

// The server drops the connection of the first request.
func TestWireABrokenConnectionIsTriedAgain(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}))
	client, tr := dial(t, Config{Retry: throttle.RetryConfig{Backoff: -1}}, srv)
	resp, err := client.Get(srv.URL)
	testrig.Must(t, err)
	resp.Body.Close()
	if st := tr.Stats(); st.Sent != 2 || st.Retried != 1 {
		t.Errorf("%+v", st)
	}
}

// The server resets the stream of the first request.
func TestWireABrokenStreamIsTriedAgain(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	client, tr := dial(t, Config{Retry: throttle.RetryConfig{Backoff: -1}}, srv)
	resp, err := client.Get(srv.URL)
	testrig.Must(t, err)
	resp.Body.Close()
	if st := tr.Stats(); st.Sent != 2 || st.Retried != 1 {
		t.Errorf("%+v", st)
	}
}

// The error of http.Client tells why.
func TestWireAClientSeesTheRejection(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplimit.Reject(w, r, weir.Reject(weir.OverRate, time.Minute))
	}))
	client, _ := dial(t, Config{MaxWait: time.Second}, srv)
	resp, err := client.Get(srv.URL)
	testrig.Must(t, err)
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 429 || !bytes.Contains(b, []byte("over_rate")) {
		t.Errorf("%s: %s", resp.Status, b)
	}
	resp.Body.Close()
	_, err = client.Get(srv.URL)
	r, ok := errors.AsType[*weir.Rejection](err)
	if !ok || r.Reason != weir.OverRate || r.RetryAfter <= time.Second {
		t.Errorf("%v, %+v", err, r)
	}
}
