//go:build system

package proxypage_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/proxypage"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// rules has names and routes that would break a page that took them for markup.
const rules = `
max_pressure: 0.4
rules:
  - {name: clients, by: [header X-Api-Key, address], rate: 100/s, burst: 200, except: ["/health"]}
  - {name: logins, by: address, rate: 5/m, routes: ["POST /login"]}
  - {name: "<img src=x onerror=alert(1)>", rate: 1/m, routes: ["/<script>document.title='broken'</script>"]}
  - {name: batch, by: address + route, rate: 2/s, routes: ["/batch/"], mode: shadow}
classes:
  - {name: reports, routes: ["/reports/", "GET /export/{id}"], limit: 2, slow_start: 1h, queue: 1, max_wait: 50ms, priority: sheddable, timeout: 9s}
  - {name: search, routes: ["/search"], cache: {ttl: 1m}}
  - {name: trial, routes: ["/trial"], limit: 1, queue: 0, mode: shadow}
default: {max_body: 1KiB}
total: {limit: 50}
`

// A rig is a proxy under load, with its page.
type rig struct {
	*proxy.Proxy
	URL  string
	page *proxypage.Page
	text atomic.Pointer[string] // of the file of rules
	away func()                 // ends the page

	status atomic.Int64 // of the origins' answers
	down   atomic.Bool  // the origin b refuses connections
}

func newRig(t testing.TB, file string) *rig {
	t.Helper()
	return newRecordedRig(t, file, nil)
}

// newRecordedRig is newRig with a recording.
func newRecordedRig(t testing.TB, file string, box *blackbox.Box) *rig {
	t.Helper()
	r := &rig{}
	r.text.Store(&file)
	idle := filepath.Join(t.TempDir(), "cpu.pressure")
	testrig.Must(t, os.WriteFile(idle, []byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), 0o600))
	r.status.Store(200)
	var err error
	r.Proxy, err = proxy.New(proxy.Config{
		Origins: []string{"http://a.test", "http://b.test"}, Transport: r, Logger: slog.New(slog.DiscardHandler), RulesPath: "rules.yaml",
		Limit: proxy.FixedLimit(8), Box: box, PressureFile: idle, Queue: 4, MaxWait: 100 * time.Millisecond,
		LoadRules: func() (*proxyrule.Rules, error) { return proxyrule.Parse("rules.yaml", []byte(*r.text.Load())) },
	})
	testrig.Must(t, err)
	r.page = proxypage.New(r.Proxy, false)
	t.Cleanup(r.page.Close)
	srv := httptest.NewServer(httpserve.Private(r.page, true, nil))
	t.Cleanup(srv.Close)
	r.URL, r.away = srv.URL, srv.Close
	return r
}

// RoundTrip is the origins.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "b.test" && r.down.Load() {
		return nil, syscall.ECONNREFUSED
	}
	takes := 40 * time.Millisecond
	if strings.HasPrefix(req.URL.Path, "/reports/") || req.URL.Path == "/left" {
		takes = 200 * time.Millisecond
	}
	select {
	case <-time.After(takes):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	return &http.Response{
		StatusCode: int(r.status.Load()), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok")), ContentLength: 2,
	}, nil
}

// ask sends a request.
func (r *rig) ask(ctx context.Context, method, target string, header ...string) {
	req := httptest.NewRequestWithContext(ctx, method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	r.ServeHTTP(httptest.NewRecorder(), req)
}

// load sends requests of all kinds until the test ends: each client sends its next one
// when the one before has ended, and some time has passed.
func (r *rig) load(t testing.TB) {
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	t.Cleanup(func() { stop(); clients.Wait() })
	each := func(n int, pause time.Duration, ask func(context.Context)) {
		for range n {
			clients.Go(func() {
				for ctx.Err() == nil {
					ask(ctx)
					select {
					case <-time.After(pause):
					case <-ctx.Done():
					}
				}
			})
		}
	}
	each(16, 10*time.Millisecond, func(ctx context.Context) { r.ask(ctx, "GET", "/items", "X-Api-Key", "acme") })
	each(6, 10*time.Millisecond, func(ctx context.Context) { r.ask(ctx, "GET", "/reports/1", "X-Api-Key", "reports") })
	each(1, 100*time.Millisecond, func(ctx context.Context) { r.ask(ctx, "POST", "/login", "X-Api-Key", "login") })
	each(1, 50*time.Millisecond, func(ctx context.Context) { r.ask(ctx, "GET", "/search?q=weir", "X-Api-Key", "search") })
	each(2, 50*time.Millisecond, func(ctx context.Context) { r.ask(ctx, "GET", "/batch/1", "X-Api-Key", "batch") })
	each(3, 50*time.Millisecond, func(ctx context.Context) { r.ask(ctx, "GET", "/trial", "X-Api-Key", "trial") })
	each(1, 100*time.Millisecond, func(ctx context.Context) {
		ctx, leave := context.WithTimeout(ctx, 120*time.Millisecond)
		defer leave()
		r.ask(ctx, "GET", "/left", "X-Api-Key", "left")
	})
}
