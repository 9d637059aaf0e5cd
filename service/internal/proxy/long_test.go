package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy"
)

// dribble is a body that comes in two parts, the second after a while.
type dribble struct {
	after time.Duration
	parts int
	ctx   context.Context
}

func (d *dribble) Read(p []byte) (int, error) {
	switch d.parts++; d.parts {
	case 1:
		return copy(p, "first"), nil
	case 2:
		select {
		case <-time.After(d.after):
			return copy(p, "second"), io.EOF
		case <-d.ctx.Done():
			return 0, d.ctx.Err()
		}
	}
	return 0, io.EOF
}

func (d *dribble) Close() error { return nil }

// routes is an origin that is quick but for some paths.
func routes(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	time.Sleep(s / 100)
	resp := answer(200)
	switch r.URL.Path {
	case "/hangs":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "/events":
		resp.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
		resp.Body, resp.ContentLength = &dribble{after: 60 * s, ctx: r.Context()}, -1
	case "/download":
		resp.Body, resp.ContentLength = &dribble{after: 60 * s, ctx: r.Context()}, -1
	case "/large":
		resp.Body, resp.ContentLength = &dribble{after: 60 * s, ctx: r.Context()}, 11
	}
	return resp, nil
}

func fetchFrom(h http.Handler, method, path string, body io.Reader) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, body))
	return w.Code
}

// What goes on for long leaves the limit of 1, and others are served.
func TestLongLivedExchangesLeaveTheLimit(t *testing.T) {
	for _, tt := range []struct {
		path  string
		after time.Duration // its header
	}{
		{"/events", 0},
		{"/download", 60 * time.Millisecond},
		{"/large", 60 * time.Millisecond},
	} {
		t.Run(tt.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProxy(t, proxy.Config{Transport: origin(routes)})
				fetchFrom(p, "GET", "/", nil) // how long ordinary work takes
				time.Sleep(s)
				go fetchFrom(p, "GET", tt.path, nil)
				time.Sleep(s/200 + 1)
				want(t, p, 1, 0)
				time.Sleep(s/200 + tt.after)
				long(t, p, 1)
				for range 100 {
					if code := fetchFrom(p, "GET", "/", nil); code != 200 {
						t.Fatalf("status %d beside it", code)
					}
				}
				long(t, p, 1)
				time.Sleep(2 * time.Minute)
				long(t, p, 0)
				if st := p.Stats(); st.Outcomes[weir.Success] != 102 {
					t.Errorf("%+v: want it counted as a success", st)
				}
			})
		})
	}
}

// There are as many of them as one address may have. Others keep their units.
func TestLongLivedExchangesAreBounded(t *testing.T) {
	for most, n := range map[int]int{-1: 0, 4: 2} {
		synctest.Test(t, func(t *testing.T) {
			p := newProxy(t, proxy.Config{Transport: origin(routes), Limit: proxy.FixedLimit(5), LongLived: most})
			for range 4 {
				go fetchFrom(p, "GET", "/events", nil)
			}
			time.Sleep(s)
			if st := p.Stats(); st.LongLived != n || st.Inflight != 4-n {
				t.Errorf("at most %d: %d long-lived, %d in flight", most, st.LongLived, st.Inflight)
			}
			time.Sleep(2 * time.Minute)
			long(t, p, 0)
		})
	}
}

// A request without an answer is stuck once many that came later were answered.
// Then it takes no unit, and says nothing about load.
func TestAHungPathLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: origin(routes), Limit: proxy.FixedLimit(10), Queue: 100, Timeout: 30 * s})
		var wg sync.WaitGroup
		served, all := 0, 0
		for range 60 { // two minutes, one every two seconds
			wg.Go(func() { fetchFrom(p, "GET", "/hangs", nil) })
			for range 100 {
				if all++; fetchFrom(p, "GET", "/", nil) == 200 {
					served++
				}
				time.Sleep(s / 100)
			}
		}
		if served < all {
			t.Errorf("%d of %d served beside a hung path", served, all)
		}
		if st := p.Stats(); st.LongLived < 20 || st.Outcomes[weir.Dropped] > 0 {
			t.Errorf("%+v: want those that hang stuck, and no sign of load", st)
		}
		wg.Wait()
		time.Sleep(time.Minute)
		long(t, p, 0)
	})
}

// If nothing is answered, nothing is stuck: it could be load.
func TestAHungOriginKeepsItsUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: origin(routes), Limit: proxy.FixedLimit(3), Timeout: 30 * s, AbandonedHold: 10 * s})
		for range 100 {
			fetchFrom(p, "GET", "/", nil)
		}
		for range 3 {
			go fetchFrom(p, "GET", "/hangs", nil)
		}
		time.Sleep(29 * s)
		want(t, p, 3, 0)
		time.Sleep(20 * s)
		want(t, p, 0, 0)
		if st := p.Stats(); st.Outcomes[weir.Dropped] != 3 {
			t.Errorf("%+v: want three signs of load", st)
		}
	})
}

// While a client sends its request slowly, it holds no unit; once it is sent, the
// work counts.
func TestASlowUploadHoldsNoUnit(t *testing.T) {
	overWire(t, proxy.Config{Transport: origin(routes), ClientTimeout: 60 * s}, func(t *testing.T, p *proxy.Proxy, w wire) {
		w.send(get)
		w.receive() // how long ordinary work takes
		time.Sleep(s)
		w.send(fmt.Sprintf(post, 200_000) + strings.Repeat("x", 100_000))
		time.Sleep(s)
		long(t, p, 1)
		if code := fetchFrom(p, "GET", "/", nil); code != 200 {
			t.Errorf("status %d beside it", code)
		}
		time.Sleep(20 * s)
		w.send(strings.Repeat("x", 100_000))
		synctest.Wait()
		want(t, p, 1, 0)
		if resp := w.receive(); resp.StatusCode != 200 {
			t.Errorf("%+v", resp)
		}
		if st := p.Stats(); st.Outcomes[weir.Success] != 2 || st.Outcomes[weir.Ignored] != 1 {
			t.Errorf("%+v: want nothing learnt from how long its client took", st)
		}
	})
}

// A small body is received before the request takes a unit.
func TestASmallBodyIsReceivedFirst(t *testing.T) {
	overWire(t, proxy.Config{Transport: origin(routes)}, func(t *testing.T, p *proxy.Proxy, w wire) {
		w.send(fmt.Sprintf(post, 100) + "some of it")
		time.Sleep(s)
		long(t, p, 0)
		if st := p.Stats(); st.Admitted != 0 {
			t.Errorf("%+v: want nothing admitted yet", st)
		}
		w.send(strings.Repeat("x", 90))
		if resp := w.receive(); resp.StatusCode != 200 {
			t.Errorf("%+v", resp)
		}
	})
}

// The origin is done when it has sent a small body, whether or not its client has
// taken it.
func TestTheUnitIsFreeWhenTheOriginIsDone(t *testing.T) {
	whole := func(r *http.Request) (*http.Response, error) {
		resp := answer(200)
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 20_000))), 20_000
		return resp, nil
	}
	overWire(t, proxy.Config{Transport: origin(whole)}, func(t *testing.T, p *proxy.Proxy, w wire) {
		w.send(get)
		synctest.Wait()
		long(t, p, 0)
		if st := p.Stats(); st.Outcomes[weir.Success] != 1 {
			t.Errorf("%+v: want a success", st)
		}
	})
}
