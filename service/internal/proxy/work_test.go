package proxy_test

import (
	"context"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/forward"
)

// Little's law holds in every period, also while work begins and ends in it.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 100 * time.Millisecond
		p := newProxy(t, proxy.Config{Limit: proxy.FixedLimit(8), Transport: origin(func(r *http.Request) (*http.Response, error) {
			return answers(200, takes)(r)
		})})
		check := func(w forward.WorkPeriod, inflight float64, ended uint64, mean time.Duration) {
			t.Helper()
			if math.Abs(w.Inflight-inflight) > 1e-9 || w.Ended != ended || w.Mean != mean {
				t.Errorf("%+v: want %v in flight, %d ended, %v each", w, inflight, ended, mean)
			}
		}
		start := p.Work()
		check(start.Since(start, 0.5), 0, 0, 0)
		for range 4 {
			go ask(context.Background(), p)
		}
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
		half := p.Work()
		if half.Inflight != 4 {
			t.Errorf("%d in flight: want 4", half.Inflight)
		}
		check(half.Since(start), 4, 0, 0)
		time.Sleep(150 * time.Millisecond)
		all := p.Work()
		if all.Inflight != 0 {
			t.Errorf("%d in flight: want 0", all.Inflight)
		}
		check(all.Since(start), 2, 4, takes)                                                    // 4 × 100 ms in 200 ms
		check(all.Since(half), 4.0/3, 4, takes/2)                                               // 4 × 50 ms in 150 ms
		if got := all.Since(half, 0, 1).Times; !about(got[0], takes) || !about(got[1], takes) { // of the whole exchanges
			t.Errorf("quantiles %v: want %v", got, takes)
		}

		// Of two kinds, the quantiles tell both. Earlier exchanges do not matter.
		for i := range 20 {
			if takes = 10 * time.Millisecond; i%10 == 9 {
				takes = time.Second
			}
			ask(context.Background(), p)
		}
		if got := p.Work().Since(all, 0.5, 0.99).Times; !about(got[0], 10*time.Millisecond) || !about(got[1], time.Second) {
			t.Errorf("quantiles %v: want 10ms and 1s", got)
		}
	})
}

func about(got, want time.Duration) bool { return math.Abs(float64(got-want)) <= 0.01*float64(want) }

// A long-lived exchange counts until it leaves the limit.
func TestWorkOfLongLived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Limit: proxy.FixedLimit(8), Transport: origin(func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			resp := answer(200)
			resp.Header.Set("Content-Type", "text/event-stream")
			resp.Body = slowly{r.Context()}
			return resp, nil
		})})
		start := p.Work()
		ctx, leave := context.WithCancel(t.Context())
		go ask(ctx, p)
		time.Sleep(10 * time.Second)
		w := p.Work()
		if w.Inflight != 0 || w.Ended != 1 || w.Busy != 100*time.Millisecond || !about(w.Since(start, 0.5).Times[0], 100*time.Millisecond) {
			t.Errorf("%+v: want one that has left after 100 ms", w)
		}
		leave()
		synctest.Wait()
		if w := p.Work(); w.Inflight != 0 || w.Ended != 1 {
			t.Errorf("%+v: counted twice", w)
		}
	})
}

// slowly is a body that ends with its request.
type slowly struct{ ctx context.Context }

func (s slowly) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (s slowly) Close() error             { return nil }
