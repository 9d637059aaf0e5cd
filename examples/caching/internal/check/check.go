// Package check tests a router behind a cache over HTTP.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/examples/caching/internal/site"
	"github.com/weir-go/weir/httpcache"
)

// A Router returns a router that calls calculate for GET /calculate/{x}, and answers with "x:
// RESULT", and that sets a cookie in the response to GET /me.
type Router func(calculate func(x string) (string, error)) http.Handler

// Run checks a router.
func Run(t *testing.T, router Router) {
	t.Run("ten clients at once cost one call", func(t *testing.T) { once(t, router) })
	t.Run("an error is not kept", func(t *testing.T) { failure(t, router) })
	t.Run("other routes are not cached", func(t *testing.T) { others(t, router) })
	t.Run("calls without their clients", func(t *testing.T) { abandoned(t, router) })
}

// start serves a router behind a cache.
func start(t *testing.T, router Router, calculate func(x string) (string, error)) (url string) {
	t.Helper()
	c, err := httpcache.New(httpcache.Config{DefaultTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(site.InFront(router(calculate), c))
	t.Cleanup(s.Close)
	return s.URL
}

// get asks for a path. Without a response, the status is 0.
func get(ctx context.Context, t *testing.T, url string) (status int, body, cacheStatus string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Error(err)
		return 0, "", ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return 0, "", ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text)), resp.Header.Get("Cache-Status")
}

func once(t *testing.T, router Router) {
	var calls atomic.Int64
	begun, goOn := make(chan struct{}), make(chan struct{})
	url := start(t, router, func(string) (string, error) {
		if calls.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return "done", nil
	})
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			if status, body, _ := get(t.Context(), t, url+"/calculate/a"); status != 200 || body != "a: done" {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	<-begun
	close(goOn)
	clients.Wait()
	_, _, how := get(t.Context(), t, url+"/calculate/a")
	if n := calls.Load(); n != 1 || !strings.Contains(how, "hit") {
		t.Errorf("%d calls, and then Cache-Status: %s", n, how)
	}
}

func failure(t *testing.T, router Router) {
	var calls atomic.Int64
	url := start(t, router, func(string) (string, error) {
		if calls.Add(1) == 1 {
			return "", errors.New("broken")
		}
		return "done", nil
	})
	for _, want := range []string{"502 a: broken", "200 a: done", "200 a: done"} {
		if status, body, _ := get(t.Context(), t, url+"/calculate/a"); fmt.Sprint(status, " ", body) != want {
			t.Errorf("%d %s: want %s", status, body, want)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func others(t *testing.T, router Router) {
	url := start(t, router, nil)
	for range 2 {
		if status, body, how := get(t.Context(), t, url+"/me"); status != 200 || body != "me" || how != "" {
			t.Errorf("%d %s, Cache-Status: %s", status, body, how)
		}
	}
}

// The clients of some calls leave while these run. The requests of other clients begin, and get
// their own responses; and each call reads its own parameter at its end.
func abandoned(t *testing.T, router Router) {
	goOn := make(chan struct{})
	var begun, running sync.WaitGroup
	url := start(t, router, func(x string) (string, error) {
		if strings.HasPrefix(x, "left") {
			defer running.Done()
			begun.Done()
			<-goOn
		}
		return "of " + x, nil
	})
	const n = 20
	begun.Add(n)
	running.Add(n)
	ctx, leave := context.WithCancel(t.Context())
	var left sync.WaitGroup
	for i := range n {
		left.Go(func() { get(ctx, t, fmt.Sprintf("%s/calculate/left-%d", url, i)) })
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		for i := range 5 * n {
			if i == n {
				begun.Wait()
				leave()
			}
			if i == 2*n {
				close(goOn)
			}
			x := fmt.Sprintf("kept-%d", i)
			if status, body, _ := get(t.Context(), t, url+"/calculate/"+x); status != 200 || body != x+": of "+x {
				t.Errorf("%s: %d %s", x, status, body)
			}
		}
	})
	left.Wait()
	clients.Wait()
	running.Wait()
}
