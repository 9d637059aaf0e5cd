package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A gocc is a server on a port, and a client, as for a user of GoCC.
type gocc struct {
	t    *testing.T
	site *site
	url  string
	*http.Client
}

// overBoth runs a test on a server on loopback, over HTTP/1 and HTTP/2. Windows
// are so long that none ends while a test runs.
func overBoth(t *testing.T, cfg httpapi.Config, window time.Duration, limit, queue int, test func(t *testing.T, g *gocc)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			rule := allKeys(limit, window, config.Fixed)
			rule.Queue = &queue
			site := newSite(t, cfg, rule)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: site, Protocols: new(http.Protocols)}
			srv.Protocols.SetHTTP1(true)
			srv.Protocols.SetUnencryptedHTTP2(true)
			go srv.Serve(ln)
			t.Cleanup(func() { srv.Close() })
			test(t, &gocc{t, site, "http://" + ln.Addr().String(), testrig.Client(t, version, nil)})
		})
	}
}

// do sends a request, and fails the test if the status is another.
func (g *gocc) do(status int, method, path string, headers ...string) *answer {
	g.t.Helper()
	a, err := g.try(g.t.Context(), method, path, headers...)
	if err != nil {
		g.t.Fatal(err)
	}
	if a.status != status {
		g.t.Errorf("%s %s: %d %s: want %d", method, path, a.status, a.body, status)
	}
	return a
}

func (g *gocc) try(ctx context.Context, method, path string, headers ...string) (*answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, g.url+path, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.Do(r)
	if err != nil {
		return nil, err
	}
	return read(g.t, r, resp), nil
}

// patience is how long a test waits for what comes at once.
const patience = 20 * time.Second

// waiting returns once n requests wait.
func (g *gocc) waiting(n int) {
	g.t.Helper()
	for start := time.Now(); g.site.server.Waiting() != n; runtime.Gosched() {
		if time.Since(start) > patience {
			g.t.Fatalf("%d wait: want %d", g.site.server.Waiting(), n)
		}
	}
}

// A hundred requests per window are granted, each with a unique id, by POST or GET.
func TestGoCCLimit(t *testing.T) {
	overBoth(t, httpapi.Config{}, time.Hour, 100, 400, func(t *testing.T, g *gocc) {
		ids := map[string]bool{}
		for i := range 100 {
			method := []string{"POST", "GET"}[i%2]
			ids[g.do(200, method, "/rate/test-key").text("request_id")] = true
		}
		if len(ids) != 100 || ids[""] {
			t.Errorf("%d ids", len(ids))
		}
		for range 50 {
			a := g.do(429, "POST", "/rate/test-key")
			if a.text("error") != "rate limit exceeded" || a.text("key") != "test-key" || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%v %s", a.header, a.body)
			}
		}
		g.do(200, "POST", "/rate/another-key")
	})
}

// What clients and instances of GoCC send besides does no harm.
func TestGoCCExtras(t *testing.T) {
	overBoth(t, httpapi.Config{}, time.Hour, 100, 400, func(t *testing.T, g *gocc) {
		g.do(200, "POST", "/rate/a", "X-Correlation-ID", "abc-123")
		g.do(200, "POST", "/rate/a?canWait=&maxRequests=")
		g.do(200, "POST", "/rate/a?canWait=T&ik=true")
		g.do(200, "POST", "/rate/%20a%20")
		g.do(400, "POST", "/rate/a?canWait=perhaps")
		g.do(400, "POST", "/rate/%20")
		if a := g.do(200, "GET", "/debug/a"); a.json["NumApprovedThisWindow"] != 4.0 {
			t.Errorf("%s", a.body)
		}
	})
}

// Requests with canWait wait in order of arrival; a release lets in the first of
// them; and the queue is bounded.
func TestGoCCQueue(t *testing.T) {
	overBoth(t, httpapi.Config{}, time.Hour, 1, 3, func(t *testing.T, g *gocc) {
		id := g.do(200, "POST", "/rate/a").text("request_id")
		var wg sync.WaitGroup
		granted := make(chan [2]string, 3)
		for i := range 3 {
			wg.Go(func() {
				a := g.do(200, "POST", "/rate/a?canWait=true")
				granted <- [2]string{fmt.Sprint(i), a.text("request_id")}
			})
			g.waiting(i + 1)
		}
		if a := g.do(429, "POST", "/rate/a?canWait=true"); a.text("reason") != "queue_full" {
			t.Errorf("%s", a.body)
		}
		g.do(429, "POST", "/rate/a")
		if a := g.do(200, "GET", "/debug/a"); a.json["NumWaiting"] != 3.0 || a.json["NumDeniedThisWindow"] != 2.0 {
			t.Errorf("%s", a.body)
		}
		var order []string
		for range 3 {
			g.do(200, "DELETE", "/rate/a/"+id)
			select {
			case next := <-granted:
				order, id = append(order, next[0]), next[1]
			case <-time.After(patience):
				t.Fatal("nobody in the line is granted what was given back")
			}
		}
		wg.Wait()
		if !slices.Equal(order, []string{"0", "1", "2"}) {
			t.Errorf("in the order %v", order)
		}
	})
}

// The next window lets in as many waiting requests as it has room for.
func TestGoCCWindow(t *testing.T) {
	overBoth(t, httpapi.Config{}, 50*ms, 3, 100, func(t *testing.T, g *gocc) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { g.do(200, "POST", "/rate/a?canWait=true") })
		}
		wg.Wait()
	})
}

// A caller that closes its connection, or resets its stream, has left the line.
func TestGoCCLeave(t *testing.T) {
	overBoth(t, httpapi.Config{}, time.Hour, 1, 10, func(t *testing.T, g *gocc) {
		id := g.do(200, "POST", "/rate/a").text("request_id")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := g.try(ctx, "POST", "/rate/a?canWait=true")
			left <- err
		}()
		g.waiting(1)
		cancel()
		if err := <-left; err == nil {
			t.Error("it has an answer")
		}
		g.waiting(0)
		g.do(200, "DELETE", "/rate/a/"+id)
		g.do(200, "POST", "/rate/a")
	})
}

// A release counts once, and only for the key that it is of.
func TestGoCCRelease(t *testing.T) {
	overBoth(t, httpapi.Config{}, time.Hour, 2, 10, func(t *testing.T, g *gocc) {
		id := g.do(200, "POST", "/rate/a").text("request_id")
		g.do(200, "POST", "/rate/a")
		g.do(429, "POST", "/rate/a")
		g.do(404, "DELETE", "/rate/b/"+id)
		g.do(404, "DELETE", "/rate/a/not-an-id")
		g.do(200, "DELETE", "/rate/a/"+id)
		g.do(404, "DELETE", "/rate/a/"+id)
		g.do(200, "POST", "/rate/a")
		g.do(429, "POST", "/rate/a")
	})
}

// Clients choose their own limits where they may.
func TestGoCCOverrides(t *testing.T) {
	const query = "?maxRequests=3&maxRequestsInQueue=0"
	t.Run("allowed", func(t *testing.T) {
		overBoth(t, httpapi.Config{MaxLimit: 1000, MaxQueue: 1000}, time.Hour, 1, 10, func(t *testing.T, g *gocc) {
			for range 3 {
				g.do(200, "POST", "/rate/a"+query)
			}
			g.do(429, "POST", "/rate/a"+query)
			g.do(429, "POST", "/rate/a"+query+"&canWait=true")
			g.do(400, "POST", "/rate/a?maxRequests=1001")
			g.do(400, "POST", "/rate/a?maxRequests=many")
		})
	})
	t.Run("forbidden", func(t *testing.T) {
		overBoth(t, httpapi.Config{}, time.Hour, 1, 10, func(t *testing.T, g *gocc) {
			if a := g.do(403, "POST", "/rate/a"+query); a.text("error") != "maxRequests query parameter is disabled" {
				t.Errorf("%s", a.body)
			}
			g.do(200, "POST", "/rate/a")
		})
	})
}

// The state is shown as GoCC shows it.
func TestGoCCDebug(t *testing.T) {
	overBoth(t, httpapi.Config{}, time.Hour, 100, 400, func(t *testing.T, g *gocc) {
		g.do(200, "GET", "/rate/x")
		g.do(200, "GET", "/rate/y")
		type instance struct {
			Key    string
			Config struct {
				WindowMillis, MaxRequestsPerWindow, MaxRequestsInQueue int
			}
			NumApprovedThisWindow, NumDeniedThisWindow, NumWaiting int
			Found                                                  bool
		}
		var all struct{ Instances map[string]instance }
		if err := json.Unmarshal([]byte(g.do(200, "GET", "/debug").body), &all); err != nil {
			t.Fatal(err)
		}
		want := instance{Key: "x", NumApprovedThisWindow: 1, Found: true}
		want.Config.WindowMillis, want.Config.MaxRequestsPerWindow, want.Config.MaxRequestsInQueue = 3_600_000, 100, 400
		if len(all.Instances) != 2 || all.Instances["x"] != want {
			t.Errorf("%+v", all)
		}
		var one instance
		if err := json.Unmarshal([]byte(g.do(200, "GET", "/debug/x").body), &one); err != nil || one != want {
			t.Errorf("%+v, %v", one, err)
		}
		if a := g.do(200, "GET", "/debug/unknown"); a.body != `{"Key":"unknown","Found":false}`+"\n" {
			t.Errorf("%s", a.body)
		}
		if a := g.do(200, "GET", "/healthz"); a.body != "OK" {
			t.Errorf("%s", a.body)
		}
	})
}
