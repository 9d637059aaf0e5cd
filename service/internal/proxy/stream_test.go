package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
)

// inFront serves a proxy in front of h, both over real HTTP.
func inFront(t *testing.T, h http.Handler, cfg proxy.Config) (*proxy.Proxy, *httptest.Server) {
	t.Helper()
	origin := httptest.NewUnstartedServer(h)
	origin.Config.ErrorLog = silent
	origin.Start()
	t.Cleanup(origin.Close)
	cfg.Origins = []string{origin.URL}
	p := newProxy(t, cfg)
	front := httptest.NewUnstartedServer(p)
	front.Config.ErrorLog = silent
	front.Start()
	t.Cleanup(front.Close)
	return p, front
}

func idle(p *proxy.Proxy) func() bool {
	return func() bool {
		st := p.Stats()
		return st.Inflight == 0 && st.Abandoned == 0 && st.Waiting == 0 && st.LongLived == 0
	}
}

// An event stream is no work in flight: the origin waits for events.
func TestStream(t *testing.T) {
	more := make(chan string)
	p, front := inFront(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for line := range more {
			fmt.Fprintln(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	}), proxy.Config{})
	go func() { more <- "first" }()
	resp, err := http.Get(front.URL)
	testrig.Must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, line := range []string{"first", "second"} {
		if line == "second" {
			more <- line
		}
		if got, err := lines.ReadString('\n'); err != nil || got != line+"\n" {
			t.Fatalf("%q, %v: want %q as soon as it is sent", got, err, line)
		}
		long(t, p, 1)
	}
	close(more)
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	testrig.Eventually(t, "the permit is free", idle(p))
	if st := p.Stats(); st.Outcomes[weir.Success] != 1 {
		t.Errorf("%+v: want a success", st)
	}
}

// A client that leaves in the middle of a stream ends it at the origin too,
// even if the origin has nothing to say just then.
func TestClientLeavesStream(t *testing.T) {
	ended := make(chan struct{})
	p, front := inFront(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}), proxy.Config{})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL, nil)
	testrig.Must(t, err)
	resp, err := http.DefaultClient.Do(req)
	testrig.Must(t, err)
	defer resp.Body.Close()
	want(t, p, 1, 0)
	leave()
	<-ended
	testrig.Eventually(t, "the permit is free", idle(p))
}

// An upgraded connection is no work in flight.
func TestUpgrade(t *testing.T) {
	for _, ends := range []string{"the client", "the origin"} {
		t.Run(ends+" ends it", func(t *testing.T) {
			p, front := inFront(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, buf, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				for {
					line, err := buf.ReadString('\n')
					if err != nil || line == "bye\n" {
						return
					}
					fmt.Fprint(conn, line)
				}
			}), proxy.Config{})
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			testrig.Must(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			r := bufio.NewReader(conn)
			if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
				t.Fatalf("%+v, %v: want 101", resp, err)
			}
			fmt.Fprint(conn, "hello\n")
			if line, err := r.ReadString('\n'); err != nil || line != "hello\n" {
				t.Fatalf("%q, %v: want an echo", line, err)
			}
			long(t, p, 1)
			if ends == "the client" {
				conn.Close()
			} else {
				fmt.Fprint(conn, "bye\n")
				if _, err := io.Copy(io.Discard, r); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
			testrig.Eventually(t, "the permit is free", idle(p))
		})
	}
}

// What a proxy passes on: early hints, trailers, the client's address and its
// host, and no header that the client made up.
func TestPassesOn(t *testing.T) {
	_, front := inFront(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		fmt.Fprintf(w, "%s %s %s", r.Host, r.Header.Get("X-Forwarded-For"), r.Header.Get("Forwarded"))
		w.Header().Set("Sum", "42")
	}), proxy.Config{})
	req, err := http.NewRequest(http.MethodGet, front.URL, nil)
	testrig.Must(t, err)
	req.Host = "shop.example"
	req.Header.Set("X-Forwarded-For", "198.51.100.7")
	req.Header.Set("Forwarded", "for=198.51.100.7")
	resp, err := http.DefaultClient.Do(req)
	testrig.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testrig.Must(t, err)
	if got := strings.TrimSpace(string(body)); got != "shop.example 127.0.0.1" || resp.Trailer.Get("Sum") != "42" {
		t.Errorf("%q, trailer %v", got, resp.Trailer)
	}
}
