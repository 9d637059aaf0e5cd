package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// Arrivals are clients of a proxy.
type arrivals struct {
	t      *testing.T
	proxy  *proxy.Proxy
	all    sync.WaitGroup
	served atomic.Int64
}

// send sends a request, and leaves after a time.
func (a *arrivals) send(path string, patience time.Duration) {
	a.all.Go(func() {
		ctx, leave := context.WithTimeout(a.t.Context(), patience)
		defer leave()
		w := httptest.NewRecorder()
		a.proxy.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			a.served.Add(1)
		}
	})
}

// play sends requests at a rate, every n-th of them to the other path, and returns how many were served.
func (a *arrivals) play(rate int, d time.Duration, n int, other string) (good int64) {
	before := a.served.Load()
	for i := range int(d.Seconds() * float64(rate)) {
		if n > 0 && i%n == 0 {
			a.send(other, s)
		} else {
			a.send("/", s)
		}
		time.Sleep(s / time.Duration(rate))
	}
	return a.served.Load() - before
}

// defaults are the settings of weir proxy without flags.
func defaults(transport origin) proxy.Config {
	return proxy.Config{Transport: transport, Auto: limit.Config{Max: 1e4}, Queue: 1000, MaxWait: 500 * time.Millisecond}
}

// Requests for a path that does not answer hold the whole limit of a new proxy, whether
// their clients stay or leave. Other paths are served again, while these still hang.
func TestAHungPathHoldsTheWholeLimit(t *testing.T) {
	for _, stays := range []time.Duration{s, time.Hour} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("clients stay %v, known %v", stays, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log strings.Builder
					cfg := defaults(routes)
					cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
					a := arrivals{t: t, proxy: newProxy(t, cfg)}
					if known {
						a.play(75, 10*s, 0, "")
					}
					for range 200 {
						a.send("/hangs", stays)
					}
					a.play(75, 5*s, 0, "")
					if good := a.play(75, 20*s, 0, ""); good < 1000 {
						t.Errorf("%d of 1500 requests served from five seconds later on: want 1000", good)
					}
					a.all.Wait()
					time.Sleep(2 * time.Minute)
					long(t, a.proxy, 0)
					if !strings.Contains(log.String(), `class=default request="GET /hangs"`) {
						t.Errorf("want the request named in the log:\n%s", log.String())
					}
				})
			})
		}
	}
}

// Beside a path that never answers, the other one is served as if it were alone.
func TestAHungPathLeavesTheOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := arrivals{t: t, proxy: newProxy(t, defaults(routes))}
		a.play(400, 10*s, 1, "/") // more than usual
		a.play(100, 60*s, 4, "/hangs")
		if good := a.play(100, 30*s, 4, "/hangs"); good < 2200 {
			t.Errorf("%d of 2250 requests served beside a path that hangs: want 2200", good)
		}
		a.all.Wait()
		time.Sleep(2 * time.Minute)
	})
}

// If nothing is answered, the origin as a whole hangs. Then few requests more than the
// limit reach it.
func TestAHungOriginGetsFewMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hung, inside atomic.Int64
		var hangs atomic.Bool
		cfg := defaults(func(r *http.Request) (*http.Response, error) {
			if hangs.Load() {
				hung.Store(max(hung.Load(), inside.Add(1)))
				defer inside.Add(-1)
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			time.Sleep(20 * time.Millisecond)
			return answer(200), nil
		})
		cfg.Auto = limit.Config{Initial: 10, Min: 10, Max: 10}
		a := arrivals{t: t, proxy: newProxy(t, cfg)}
		a.play(75, 10*s, 0, "")
		hangs.Store(true)
		a.play(75, 25*s, 0, "")
		if n := hung.Load(); n > 20 {
			t.Errorf("%d requests at an origin that hangs: want the limit of 10, and at most 10 more", n)
		}
		if st := a.proxy.Stats(); st.Inflight != 10 {
			t.Errorf("%d in flight: want 10", st.Inflight)
		}
		hangs.Store(false)
		a.play(75, 35*s, 0, "")
		if good := a.play(75, 10*s, 0, ""); good < 700 {
			t.Errorf("%d of 750 requests served after that: want 700", good)
		}
		a.all.Wait()
		time.Sleep(2 * time.Minute)
	})
}
