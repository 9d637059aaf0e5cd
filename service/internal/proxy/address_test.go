package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// site is a proxy behind a listener that tells addresses apart, in virtual time.
type site struct {
	*proxy.Proxy
	t       *testing.T
	network *testrig.Network
}

func newSite(t *testing.T, cfg proxy.Config) site {
	p, ln := newProxy(t, cfg), testrig.Listen()
	conns := connlimit.New(ln, 20_000)
	srv := &http.Server{Handler: p, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	srv.ConnState, srv.ConnContext = conns.ConnState, conns.ConnContext
	go func() { _ = srv.Serve(p.Listener(conns)) }()
	t.Cleanup(func() {
		srv.Close()
		time.Sleep(time.Hour) // whatever was abandoned is over by now
		want(t, p, 0, 0)
		long(t, p, 0)
	})
	return site{p, t, ln}
}

// dial connects from an address, 192.0.2.0 and the number.
func (s site) dial(from byte) net.Conn {
	return s.network.DialFrom(s.t, fmt.Sprintf("192.0.2.%d:4000", from))
}

// get returns the status of a request on a new connection; 0 if there is no answer.
func (s site) get(from byte, path string) int {
	c := s.dial(from)
	defer c.Close()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }, DisableKeepAlives: true,
	}}
	resp, err := client.Get("http://proxy.test" + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}

var ampleBody = strings.Repeat("x", 1<<18)

// ample is an origin with answers that are larger than what a connection buffers, and
// with upgrades.
func ample(r *http.Request) (*http.Response, error) {
	resp, err := routes(r)
	if err != nil {
		return nil, err
	}
	switch r.URL.Path {
	case "/ample":
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(ampleBody)), int64(len(ampleBody))
	case "/socket":
		origin, _ := net.Pipe()
		resp.StatusCode, resp.Body, resp.ContentLength = http.StatusSwitchingProtocols, origin, -1
		resp.Header.Set("Connection", "Upgrade")
		resp.Header.Set("Upgrade", "echo")
	}
	return resp, nil
}

// One address with ten thousand exchanges that it sends or takes as slowly as it likes gets its share
// of the places for long-lived exchanges, and holds no units beyond: clients of other
// addresses are served.
func TestSlowClientsOfOneAddress(t *testing.T) {
	for name, request := range map[string]string{
		"readers": "GET /ample HTTP/1.1\r\nHost: a\r\n\r\n",
		"writers": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\nx",
		"streams": "GET /events HTTP/1.1\r\nHost: a\r\n\r\n",
		"sockets": "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newSite(t, proxy.Config{
					Transport: origin(ample), Limit: proxy.FixedLimit(20), Queue: 100, LongLived: 40, ClientTimeout: -1,
				})
				for range 100 { // how long ordinary work takes
					p.get(2, "/")
				}
				failed, most := 0, 0
				for i := range 2500 { // of each kind
					c := p.dial(1)
					defer c.Close()
					go func() {
						if _, err := io.WriteString(c, request); err == nil && name != "readers" {
							_, _ = io.Copy(io.Discard, c)
						}
					}()
					if i%10 == 0 && p.get(2+byte(i/10%3), "/") != 200 {
						failed++
					}
					time.Sleep(s / 50)
					synctest.Wait()
					most = max(most, p.Stats().LongLived)
				}
				if failed > 0 {
					t.Errorf("%d of 250 requests of other addresses failed", failed)
				}
				if most > 20 {
					t.Errorf("%d long-lived of one address: want at most half of 40", most)
				}
				if n := metricOf(t, p.Proxy, "weir_proxy_long_lived_ended_total"); n == "" {
					t.Error("no metric of those that were ended")
				}
			})
		})
	}
}

// Exchanges without a place go on while there are units for others, and leave the limit
// when a place is free.
func TestWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSite(t, proxy.Config{Transport: origin(ample), Limit: proxy.FixedLimit(5), LongLived: 2, ClientTimeout: -1})
		for range 100 {
			p.get(2, "/")
		}
		got := make(chan int, 3)
		for range 3 {
			go func() { got <- p.get(1, "/events") }() // for a minute
			time.Sleep(20 * s)
		}
		for range 3 {
			if status := <-got; status != 200 {
				t.Errorf("status %d for a stream beside free units", status)
			}
			synctest.Wait()
			time.Sleep(s)
			if st := p.Stats(); st.LongLived > 1 || st.LongLived == 0 && st.Inflight > 0 {
				t.Errorf("%d long-lived, %d in flight", st.LongLived, st.Inflight)
			}
		}
	})
}

// metricOf returns the lines of a metric.
func metricOf(t *testing.T, p *proxy.Proxy, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
