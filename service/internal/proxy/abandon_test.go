package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy"
)

const s = time.Second

// A permit is held until the origin has answered, even after the client has left,
// but not for longer than AbandonedHold.
func TestAbandonedWorkCounts(t *testing.T) {
	for _, tt := range []struct {
		name      string
		hold      time.Duration
		takes     time.Duration // the origin
		leaves    time.Duration // the client
		timeout   time.Duration // the proxy's patience with the origin
		abandoned time.Duration // when the permit becomes one for abandoned work; 0 = never
		free      time.Duration // when it is released
		dropped   bool
	}{
		{"a client that stays", 10 * s, 3 * s, 9 * s, 5 * s, 0, 3 * s, false},
		{"the origin answers after its client has left", 10 * s, 3 * s, 1 * s, 5 * s, 1 * s, 3 * s, false},
		{"the origin is late as well", 10 * s, 7 * s, 1 * s, 5 * s, 1 * s, 7 * s, true},
		{"the hold is over before", 1 * s, 9 * s, 1 * s, 5 * s, 1 * s, 2 * s, false},
		{"the hold is over, and the origin is late", 6 * s, 9 * s, 1 * s, 5 * s, 1 * s, 7 * s, true},
		{"nothing is held", -1, 9 * s, 1 * s, 5 * s, 0, 1 * s, false},
		{"nothing is held, but all goes well", -1, 3 * s, 9 * s, 5 * s, 0, 3 * s, false},
		{"the origin is late and its client waits", 10 * s, 7 * s, 20 * s, 5 * s, 5 * s, 7 * s, true},
		{"the origin is late and nothing is held", -1, 7 * s, 20 * s, 5 * s, 0, 5 * s, true},
		{"the origin has all the time", 10 * s, 7 * s, 20 * s, -1, 0, 7 * s, false},
	} {
		allWays(t, tt.name, func(t *testing.T, reach reaching) {
			p := reach(t, answers(200, tt.takes), proxy.Config{AbandonedHold: tt.hold, Timeout: tt.timeout})
			before := p.Stats().Outcomes
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(tt.leaves, leave)
			go ask(ctx, p)
			if tt.abandoned > 0 {
				time.Sleep(tt.abandoned - 1)
				want(t, p, 1, 0)
				time.Sleep(2 * time.Nanosecond)
				want(t, p, 1, 1)
				time.Sleep(tt.free - tt.abandoned - 2)
				want(t, p, 1, 1)
			} else {
				time.Sleep(tt.free - 1)
				want(t, p, 1, 0)
			}
			time.Sleep(2 * time.Nanosecond)
			want(t, p, 0, 0)
			after := p.Stats().Outcomes
			sum := uint64(0)
			for o := range after {
				after[o] -= before[o]
				sum += after[o]
			}
			if after[weir.Dropped] > 0 != tt.dropped || sum != 1 {
				t.Errorf("%+v: want dropped: %v", after, tt.dropped)
			}
		})
	}
}

// Abandoned work keeps its unit.
func TestAbandonedWorkKeepsOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: answers(200, 3*s)})
		ctx, leave := context.WithTimeout(t.Context(), s)
		defer leave()
		if w := ask(ctx, p); w.Code != 499 {
			t.Errorf("status %d for a client that left: want 499", w.Code)
		}
		if w := ask(t.Context(), p); w.Code != 503 {
			t.Errorf("status %d: want 503 while the origin works", w.Code)
		}
		time.Sleep(2 * s)
		synctest.Wait()
		if w := ask(t.Context(), p); w.Code != 200 {
			t.Errorf("status %d: want 200 once it has finished", w.Code)
		}
	})
}

// The body of an abandoned answer is closed, even if it comes after the hold, from
// a transport that ignores cancellation.
func TestAbandonedAnswerIsClosed(t *testing.T) {
	for _, hold := range []time.Duration{-1, s, 10 * s} {
		synctest.Test(t, func(t *testing.T) {
			body := &closedBody{}
			p := newProxy(t, proxy.Config{AbandonedHold: hold, Transport: origin(func(*http.Request) (*http.Response, error) {
				time.Sleep(3 * s)
				resp := answer(200)
				resp.Body = body
				return resp, nil
			})})
			ctx, leave := context.WithTimeout(t.Context(), s)
			defer leave()
			ask(ctx, p)
			time.Sleep(3 * s)
			synctest.Wait()
			if !body.closed {
				t.Errorf("held for %v: it was not closed", hold)
			}
		})
	}
}

type closedBody struct {
	brokenBody
	closed bool
}

func (b *closedBody) Close() error { b.closed = true; return nil }

func TestClientThatLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: answers(200, 3*s), Queue: 5, MaxWait: 10 * s})
		go ask(t.Context(), p)
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), s)
		defer leave()
		if w := ask(ctx, p); w.Code != 499 {
			t.Errorf("status %d: want 499", w.Code)
		}
		if st := p.Stats(); st.Cancelled != 1 || st.Waiting != 0 {
			t.Errorf("%+v: want one cancelled", st)
		}
		time.Sleep(5 * s)
	})
}

func TestOriginTimeout(t *testing.T) {
	allWays(t, "", func(t *testing.T, reach reaching) {
		p := reach(t, answers(200, 7*s), proxy.Config{Timeout: 5 * s})
		began := time.Now()
		w := ask(t.Context(), p)
		if waited := time.Since(began); w.Code != 504 || w.Header().Get(proxy.ReasonHeader) != "origin_timeout" || waited != 5*s {
			t.Errorf("status %d, %v after %v: want 504 after 5s", w.Code, w.Header(), waited)
		}
		want(t, p, 1, 1)
		time.Sleep(3 * s)
		want(t, p, 0, 0)
	})
}

// Panics of the transport or of the response writer release the permit, and reach
// net/http.
func TestPanics(t *testing.T) {
	panics := func(t *testing.T, h http.Handler, w http.ResponseWriter) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("want the panic to go on")
			}
		}()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	}
	t.Run("of the transport", func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: origin(func(*http.Request) (*http.Response, error) { panic("a bug") })})
		panics(t, p, httptest.NewRecorder())
		want(t, p, 0, 0)
	})
	t.Run("of the transport, on abandoned work", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newProxy(t, proxy.Config{Transport: origin(func(*http.Request) (*http.Response, error) {
				time.Sleep(3 * s)
				panic("a bug")
			})})
			ctx, leave := context.WithTimeout(t.Context(), s)
			defer leave()
			ask(ctx, p)
			want(t, p, 1, 1)
			time.Sleep(3 * s)
			want(t, p, 0, 0)
		})
	})
	t.Run("of the writer", func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: answers(200, 0)})
		panics(t, p, brokenWriter{httptest.NewRecorder()})
		want(t, p, 0, 0)
	})
}

type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { panic("a bug") }

// An answer that breaks off is not a success.
func TestAnswerBreaksOff(t *testing.T) {
	p := newProxy(t, proxy.Config{Transport: origin(func(*http.Request) (*http.Response, error) {
		resp := answer(200)
		resp.Body, resp.ContentLength = brokenBody{}, -1
		return resp, nil
	})})
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("recovered %v: want http.ErrAbortHandler", v)
			}
		}()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		p.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{})))
	}()
	want(t, p, 0, 0)
	if st := p.Stats(); st.Outcomes[weir.Ignored] != 1 {
		t.Errorf("%+v: want it ignored", st)
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
func (brokenBody) Close() error             { return nil }
