// Package wrappedtest checks limiters that wrap another one.
package wrappedtest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
)

// ChangesNoDecision fails the test unless httplimit treats the limiter that wrap returns like the one that it gets: in
// shadow mode no request waits, long responses leave the limit, or fill it, and the Stats are there.
func ChangesNoDecision(t *testing.T, wrap func(weir.Limiter) weir.Limiter) {
	synctest.Test(t, func(t *testing.T) {
		class := func(*http.Request) string { return "" }
		site := func(cfg httplimit.Config) (*httplimit.Middleware, func(path string) (time.Duration, *httptest.ResponseRecorder)) {
			cfg.Class, cfg.PerClass = class, func(string) weir.Limiter {
				l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), MaxWait: time.Minute})
				testrig.Must(t, err)
				return wrap(l)
			}
			m, err := httplimit.New(cfg)
			testrig.Must(t, err)
			h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Millisecond)
				if r.URL.Path == "/long" {
					w.(http.Flusher).Flush()
					time.Sleep(10 * time.Second)
				}
			}))
			return m, func(path string) (time.Duration, *httptest.ResponseRecorder) {
				began, w := time.Now(), httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				return time.Since(began), w
			}
		}
		var asked sync.WaitGroup
		defer asked.Wait()
		type ask func(path string) (time.Duration, *httptest.ResponseRecorder)
		long := func(ask ask) {
			for range 100 {
				ask("/")
			}
			asked.Go(func() { ask("/long") })
			time.Sleep(2 * time.Millisecond)
		}

		m, shadow := site(httplimit.Config{Shadow: true})
		long(shadow)
		if d, _ := shadow("/"); d != time.Millisecond {
			t.Errorf("in shadow mode, a request took %v", d)
		}
		if s := m.Stats().Classes[0].Limiter; s == nil || s.Admitted == 0 {
			t.Errorf("%+v: want the Stats of the limiter", s)
		}
		_, leaves := site(httplimit.Config{})
		long(leaves)
		if d, _ := leaves("/"); d > 60*time.Millisecond {
			t.Errorf("a long response left the limit after %v", d)
		}
		_, fills := site(httplimit.Config{LongLived: -1})
		long(fills)
		time.Sleep(time.Second)
		if d, w := fills("/"); d != 0 || w.Header().Get("Weir-Reason") != "long_lived" {
			t.Errorf("a long response fills the limit: %d after %v, %q", w.Code, d, w.Header().Get("Weir-Reason"))
		}
	})
}
