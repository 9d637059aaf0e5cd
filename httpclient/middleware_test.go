package httpclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/rate"
)

// With httplimit on the server side, a single client is almost never refused, and
// several clients together use the quota.
func TestStormOfClientsOfTheMiddleware(t *testing.T) {
	for _, test := range []struct {
		rule    string
		clients int
		refused float64 // at most, for each that is served
	}{
		{"one client", 1, 0.01},
		{"three clients", 3, 0.2},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, err := httplimit.New(httplimit.Config{Rules: []httplimit.Rule{httplimit.Overall("all", rate.NewLimiter(20, 50))}})
			if err != nil {
				t.Fatal(err)
			}
			handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(10 * ms) }))
			var served, refused atomic.Int64
			ctx, cancel := context.WithTimeout(context.Background(), 100*s)
			defer cancel()
			var all sync.WaitGroup
			for range test.clients {
				tr, _ := newClient(t, Config{Retry: noRetry}, func(_ int, r *http.Request) (*http.Response, error) {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, r)
					if w.Code == 200 {
						served.Add(1)
					} else {
						refused.Add(1)
					}
					return w.Result(), nil
				})
				for range 30 {
					all.Go(func() {
						for ctx.Err() == nil {
							if resp, err := tr.RoundTrip(get(ctx, host1)); err == nil {
								resp.Body.Close()
							} else if errors.Is(err, weir.ErrRejected) {
								time.Sleep(s)
							}
						}
					})
				}
			}
			all.Wait()
			n, no := served.Load(), refused.Load()
			t.Logf("%s: %d served, %d refused", test.rule, n, no)
			if n < 1700 || float64(no) > test.refused*float64(n) {
				t.Errorf("%s: %d served of 2050, %d refused", test.rule, n, no)
			}
		})
	}
}
