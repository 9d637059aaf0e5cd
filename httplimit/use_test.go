package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/keyed"
)

// A wrapper hides all but what Unwrap tells.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A secretive wrapper hides that, too.
type secretive struct{ http.ResponseWriter }

func TestUse(t *testing.T) {
	for _, tt := range []struct {
		rule string
		cost string
		use  []int
		left int // of a burst of 5
	}{
		{"not at all", "3", nil, 2},
		{"less comes back", "3", []int{1}, 4},
		{"nothing, all of it", "3", []int{0}, 5},
		{"the same is no change", "3", []int{3}, 2},
		{"more is charged", "3", []int{5}, 0},
		{"after a look, too", "0", []int{2}, 3},
		{"it may be told again: less", "3", []int{5, 1}, 4},
		{"and more", "3", []int{0, 4}, 1},
		{"and the same", "3", []int{4, 4, 4}, 1},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			q, other := allow(t, "q", 5), allow(t, "other", 5)
			s := newSite(t, Config{Rules: []Rule{q.Cost(byHeader), other.Cost(byHeader)}}, func(w http.ResponseWriter, _ *http.Request) {
				for _, n := range tt.use {
					if !Use(w, n) {
						t.Error("no Middleware was found")
					}
				}
			})
			s.get(200, "/", "X-Client: ada", "Cost: "+tt.cost)
			q.left(t, "ada", tt.left, tt.rule)
			other.left(t, "ada", tt.left, "the second rule: "+tt.rule)
		})
	}
}

// Use charges the key on arrival, even if the handler has changed the request.
func TestUseChargesTheKeyOnArrival(t *testing.T) {
	q := allow(t, "q", 5)
	s := newSite(t, Config{Rules: []Rule{q.Rule}}, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Client", "eve")
		Use(w, 3)
	})
	s.get(200, "/", "X-Client: ada")
	q.left(t, "ada", 2, "at the end")
	q.left(t, "eve", 5, "at the end")
}

// Debt is bounded by what the limiter bears, and is paid off by and by.
func TestUseOfMoreThanThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := keyed.New[string](gcra.PerSecond(1, 5), keyed.Config{MaxDebt: 10})
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(t, Config{Rules: []Rule{PerKey("q", lim, Header("X-Client"))}}, func(w http.ResponseWriter, r *http.Request) {
			Use(w, 1<<40)
			if r.Header.Get("Change-Of-Mind") != "" {
				Use(w, 0)
			}
		})
		s.get(200, "/", "X-Client: bob", "Change-Of-Mind: yes")
		if n := lim.For("bob").TokensAt(time.Now()); n != 5 {
			t.Errorf("all comes back that was charged, and no more: %v tokens, want 5", n)
		}
		s.get(200, "/", "X-Client: ada")
		if n := lim.For("ada").TokensAt(time.Now()); n != -10 {
			t.Errorf("%v tokens: want -10", n)
		}
		time.Sleep(11*time.Second - 1)
		s.get(429, "/", "X-Client: ada")
		time.Sleep(time.Nanosecond)
		s.get(200, "/", "X-Client: ada")
	})
}

func TestUseFindsTheMiddleware(t *testing.T) {
	var nobody http.ResponseWriter
	for _, tt := range []struct {
		rule string
		w    func(http.ResponseWriter) http.ResponseWriter
		want bool
	}{
		{"as it is", func(w http.ResponseWriter) http.ResponseWriter { return w }, true},
		{"wrapped twice", func(w http.ResponseWriter) http.ResponseWriter { return wrapper{&wrapper{w}} }, true},
		{"in a wrapper without Unwrap", func(w http.ResponseWriter) http.ResponseWriter { return secretive{w} }, false},
		{"another response", func(http.ResponseWriter) http.ResponseWriter { return httptest.NewRecorder() }, false},
		{"none", func(http.ResponseWriter) http.ResponseWriter { return nobody }, false},
		{"a wrapper of none", func(http.ResponseWriter) http.ResponseWriter { return wrapper{} }, false},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			q := allow(t, "q", 5)
			s := newSite(t, Config{Rules: []Rule{q.Rule}}, func(w http.ResponseWriter, _ *http.Request) {
				if got := Use(tt.w(w), 3); got != tt.want {
					t.Errorf("%v: want %v", got, tt.want)
				}
			})
			s.get(200, "/", "X-Client: ada")
			left := 4
			if tt.want {
				left = 2
			}
			q.left(t, "ada", left, tt.rule)
		})
	}
}

// Use has no effect on exempt requests.
func TestUseWhereNothingIsLimited(t *testing.T) {
	q := allow(t, "q", 5)
	s := newSite(t, Config{Rules: []Rule{q.Rule}}, func(w http.ResponseWriter, _ *http.Request) {
		if Use(w, 3) {
			t.Error("a Middleware was found")
		}
	})
	s.get(200, "/healthz", "X-Client: ada")
	q.left(t, "ada", 5, "exempt")
}

func TestUseIsForAllMiddlewares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := allow(t, "outer", 5), allow(t, "inner", 5)
		in := middleware(t, Config{Rules: []Rule{inner.Rule}})
		h := in.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { Use(wrapper{w}, 4) }))
		s := newSite(t, Config{Rules: []Rule{outer.Rule}}, func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(wrapper{w}, r)
		})
		s.get(200, "/", "X-Client: ada")
		outer.left(t, "ada", 1, "outer")
		inner.left(t, "ada", 1, "inner")
		w := s.get(200, "/", "X-Client: ada")
		if got := w.Header()["Ratelimit"]; len(got) != 2 {
			t.Errorf("RateLimit: %q: want one of each", got)
		}
	})
}

func TestUseOfLessThanNothingPanics(t *testing.T) {
	for _, w := range []http.ResponseWriter{nil, httptest.NewRecorder()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Use(w, -1)
		}()
	}
}

func TestShadow(t *testing.T) {
	for _, tt := range []struct {
		rule string
		cfg  func(q allowance, v *testrig.Limiter) Config
		want int // the status of a client over its quota
	}{
		{"all of it", func(q allowance, v *testrig.Limiter) Config {
			return Config{Rules: []Rule{q.Wait(time.Hour)}, Limiter: v, Shadow: true}
		}, 200},
		{"a rule", func(q allowance, v *testrig.Limiter) Config {
			return Config{Rules: []Rule{q.Wait(time.Hour).Shadow()}}
		}, 200},
		{"a rule, but not the limiter", func(q allowance, v *testrig.Limiter) Config {
			return Config{Rules: []Rule{q.Shadow()}, Limiter: v}
		}, 503},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			q, v := allow(t, "q", 1), new(testrig.Limiter)
			cfg := tt.cfg(q, v)
			s := newSite(t, cfg, func(w http.ResponseWriter, _ *http.Request) { Use(w, 1) })
			began := time.Now()
			s.get(200, "/", "X-Client: ada")
			v.Reject(refusedByLimiter)
			for range 3 {
				s.get(tt.want, "/", "X-Client: ada")
			}
			if d := time.Since(began); d != 0 {
				t.Errorf("it took %v", d)
			}
			q.left(t, "ada", 0, "nothing is taken that is not there")
			if r := s.Stats().Rules[0]; r.Allowed != 1 || r.Denied != 0 || r.Shadowed != 3 {
				t.Errorf("%+v", r)
			}
			n := s.counts("")
			if tt.want == 200 && (n.admitted != 4 || n.refused != 0) || tt.want == 503 && (n.admitted != 1 || n.refused != 3) {
				t.Errorf("%+v", n)
			}
			if cfg.Shadow && n.shadowed != 3 {
				t.Errorf("the limit would have refused %d: want 3", n.shadowed)
			}
			v.WantHeld(t, 0, "at the end")
		})
	}
}

// A request that a shadow lets in holds a unit if there was one, and none if
// not.
func TestShadowHoldsUnits(t *testing.T) {
	v := new(testrig.Limiter)
	held := 1
	s := newSite(t, Config{Limiter: v, Shadow: true}, func(http.ResponseWriter, *http.Request) {
		v.WantHeld(t, held, "in the handler")
	})
	s.get(200, "/")
	v.Reject(refusedByLimiter)
	held = 0
	s.get(200, "/")
	s.ran(2)
	if n := s.counts(""); n.outcomes[1] != 2 {
		t.Errorf("%+v: want the outcomes of both", n)
	}
}
