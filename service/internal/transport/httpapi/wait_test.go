package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// versions runs a test over HTTP/1 and HTTP/2, in virtual time.
func versions(t *testing.T, test func(t *testing.T, version int)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, version) })
		})
	}
}

// fetch sends a request over a client.
func fetch(t *testing.T, c *http.Client, method, path, body string) *answer {
	t.Helper()
	r, err := http.NewRequest(method, "http://weir"+path, strings.NewReader(body))
	testrig.Must(t, err)
	resp, err := c.Do(r)
	testrig.Must(t, err)
	return read(t, r, resp)
}

// Waiting requests are served in order of arrival.
func TestFirstComeFirstServed(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		s := newSite(t, httpapi.Config{}, allKeys(1, time.Second, config.Fixed))
		c := serve(t, s).Client(t, version)
		start := time.Now()
		fetch(t, c, "POST", "/rate/a", "")
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				a := fetch(t, c, "POST", "/rate/a?canWait=true", "")
				if took := time.Since(start).Round(time.Second); took != time.Duration(i+1)*time.Second || a.status != 200 {
					t.Errorf("%d: %v %d %s", i, took, a.status, a.body)
				}
				if place, waited := a.json["place"], a.json["waited_ms"]; place != float64(i) || waited != float64((i+1)*1000-i) {
					t.Errorf("%d: %s", i, a.body)
				}
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
	})
}

// A client that leaves while waiting is granted nothing, with a body or without.
func TestLeave(t *testing.T) {
	for _, what := range []string{"rate", "lease"} {
		for _, body := range []string{"", "ignored"} {
			t.Run(what+" "+body, func(t *testing.T) {
				versions(t, func(t *testing.T, version int) { testLeave(t, version, what, body) })
			})
		}
	}
}

func testLeave(t *testing.T, version int, what, body string) {
	one := allKeys(1, 10*s, config.Fixed)
	one.Concurrency = &config.Concurrency{Limit: 1, TTL: 10 * s}
	s := newSite(t, httpapi.Config{}, one)
	c := serve(t, s).Client(t, version)
	fetch(t, c, "POST", "/"+what+"/a", "")
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://weir/"+what+"/a?canWait=true", strings.NewReader(body))
		resp, err := c.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		left <- err
	}()
	synctest.Wait()
	if n := s.server.Waiting(); n != 1 {
		t.Errorf("%d wait", n)
	}
	cancel()
	if err := <-left; err == nil {
		t.Error("there was an answer")
	}
	time.Sleep(time.Second)
	if n := s.server.Waiting(); n != 0 {
		t.Errorf("%d wait for a caller who left", n)
	}
	time.Sleep(10 * time.Second)
	if a := fetch(t, c, "POST", "/"+what+"/a", ""); a.status != 200 {
		t.Errorf("what nobody waited for is gone: %d %s", a.status, a.body)
	}
	found := false
	for _, n := range s.Stats().Answers {
		found = found || n == httpapi.Count{Method: "POST", Path: "/" + what + "/{key}", Status: 499, N: 1}
	}
	if !found {
		t.Errorf("%+v: want a 499", s.Stats())
	}
}

// A lost caller has left, but the server has not noticed yet.
type lost struct{ context.Context }

func (lost) Err() error { return context.Canceled }

// A client that leaves at the instant of its turn takes no tokens.
func TestLeaveAtOnesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, allKeys(1, s, config.Fixed))
		site.ask("POST", "/rate/a", "")
		time.Sleep(ms)
		w := httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequestWithContext(lost{t.Context()}, "POST", "/rate/a?canWait=true", nil))
		if w.Code != 499 || w.Body.Len() > 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		time.Sleep(s - 2*ms) // not long enough for another window
		if a := site.ask("POST", "/rate/a", ""); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// A time-out also ends a wait.
func TestTimeout(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		none := allKeys(1, time.Hour, config.Fixed)
		none.Concurrency = &config.Concurrency{Limit: 1, TTL: time.Hour, MaxTTL: time.Hour}
		site := newSite(t, httpapi.Config{}, none)
		c := serve(t, site).Client(t, version)
		fetch(t, c, "POST", "/lease/a", "")
		start := time.Now()
		a := fetch(t, c, "POST", "/lease/a?canWait=true&timeout=1500ms", "")
		if took := time.Since(start); a.status != 429 || a.text("reason") != "too_late" || took > 1500*ms {
			t.Errorf("%v: %d %s", took, a.status, a.body)
		}
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%v", a.header)
		}
	})
}

// A request that could have met its time-out, but for changed rules, is answered when
// the time is over.
func TestTimeoutUnderOtherRules(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		site := newSite(t, httpapi.Config{}, allKeys(1, s, ""))
		c := serve(t, site).Client(t, version)
		fetch(t, c, "POST", "/rate/a", "")
		time.AfterFunc(100*ms, func() {
			if err := site.server.Reload(&config.Rules{Rules: []config.Rule{allKeys(1, time.Hour, "")}}); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		a := fetch(t, c, "POST", "/rate/a?canWait=true&timeout=1.5s", "")
		if took := time.Since(start); a.status != 429 || a.text("reason") != "too_late" || a.header.Get("Retry-After") != "1" || took != 1500*ms {
			t.Errorf("%v: %d %v %s", took, a.status, a.header, a.body)
		}
	})
}

// A body that is not used is read before the wait, and bounded.
func TestBodyOfAWaiter(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		site := newSite(t, httpapi.Config{}, allKeys(1, time.Hour, config.Fixed))
		w := serve(t, site)
		var sent zeros
		for _, tt := range []struct {
			body   io.Reader
			status int
		}{
			{strings.NewReader("x"), 200},
			{strings.NewReader(strings.Repeat("x", 64<<10+1)), 413},
			{io.LimitReader(&sent, 1<<30), 413}, // of a length that is not said
		} {
			c := w.Client(t, version)
			r, _ := http.NewRequest("POST", "http://weir/rate/a", tt.body)
			resp, err := c.Do(r)
			if err != nil { // the server has closed the connection before all was sent
				if tt.status != 413 {
					t.Error(err)
				}
				continue
			}
			if a := read(t, r, resp); a.status != tt.status {
				t.Errorf("%d %s: want %d", a.status, a.body, tt.status)
			}
		}
		if n := sent.n.Load(); n > 4<<20 {
			t.Errorf("%d bytes have been read of a body that is too large", n)
		}
	})
}

// zeros are a body without an end; n of them have been sent.
type zeros struct{ n atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	z.n.Add(int64(len(p)))
	return len(p), nil
}

// A body that does not come is waited for as long as the Config says.
func TestSlowBody(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		site := newSite(t, httpapi.Config{BodyTimeout: 3 * s}, allKeys(1, time.Hour, config.Fixed))
		c := serve(t, site).Client(t, version)
		for _, path := range []string{"/rate/a", "/rate"} {
			slow, stop := io.Pipe()
			r, _ := http.NewRequest("POST", "http://weir"+path, slow)
			start := time.Now()
			resp, err := c.Do(r)
			testrig.Must(t, err)
			if a := read(t, r, resp); a.status != 408 || time.Since(start) != 3*time.Second {
				t.Errorf("%s: %d %s after %v", path, a.status, a.body, time.Since(start))
			}
			stop.Close()
		}
		if a := fetch(t, c, "POST", "/rate/a", ""); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// The time-out of a body does not end a wait.
func TestBodyTimeoutEndsWithTheBody(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		site := newSite(t, httpapi.Config{BodyTimeout: s}, allKeys(1, time.Minute, config.Fixed))
		c := serve(t, site).Client(t, version)
		fetch(t, c, "POST", "/rate/a", "body")
		if a := fetch(t, c, "POST", "/rate/a?canWait=true", "body"); a.status != 200 || a.json["waited_ms"] != 60000.0 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}
