package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/keyed"
)

// ruleOf returns a Rule of a Decider for each client that X-Client names.
func ruleOf(name string, lim keyed.Decider[string]) Rule {
	return PerKey(name, lim, Header("X-Client"))
}

func inflightOf(t testing.TB, limit int) *keyed.Inflight[string] {
	t.Helper()
	lim, err := keyed.NewInflight[string](limit, keyed.Config{})
	testrig.Must(t, err)
	return lim
}

// A client with 50 slow requests has ten of them in flight. The others are refused at once, and
// another client is not affected.
func TestRequestsInFlightPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := inflightOf(t, 10)
		s := newSite(t, Config{Rules: []Rule{ruleOf("in-flight", lim)}}, func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Minute)
		})
		var ok, refused atomic.Int64
		for range 50 {
			go func() {
				w := s.do(testrig.Request("GET", "/", "X-Client: slow"))
				switch w.Code {
				case 200:
					ok.Add(1)
				case 429:
					refused.Add(1)
					if h := w.Header(); h.Get("Retry-After") != "1" || h.Get("Weir-Reason") != "over_limit" ||
						h.Get("RateLimit-Policy") != `"in-flight";q=10;qu="concurrent-requests"` || h.Get("RateLimit") != `"in-flight";r=0` {
						t.Errorf("%v", h)
					}
				}
			}()
		}
		synctest.Wait()
		if n := lim.Stats(); n.Keys != 1 || n.Units != 10 || refused.Load() != 40 {
			t.Errorf("%+v in flight, %d refused: want 10 and 40", n, refused.Load())
		}
		go s.get(200, "/", "X-Client: other")
		synctest.Wait()
		if n := lim.Stats(); n.Keys != 2 || n.Units != 11 {
			t.Errorf("%+v in flight: want one of the other client, too", n)
		}
		time.Sleep(61 * time.Second)
		if n := lim.Stats(); n.Keys != 0 || n.Units != 0 || ok.Load() != 10 {
			t.Errorf("%+v in flight, %d served: want none, and 10", n, ok.Load())
		}
		rules := s.Stats().Rules[0]
		if rules.Allowed != 11 || rules.Denied != 40 || s.counts("").refused != 40 {
			t.Errorf("%+v", rules)
		}
	})
}

// A unit of a client is held until the handler has ended, however that ends. Streams and
// connections that were hijacked count for as long.
func TestAUnitOfAClientIsHeldUntilTheHandlerHasEnded(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, held func(), w http.ResponseWriter){
		"returns": func(*testing.T, func(), http.ResponseWriter) {},
		"panics":  func(*testing.T, func(), http.ResponseWriter) { panic("a bug") },
		"exits":   func(*testing.T, func(), http.ResponseWriter) { runtime.Goexit() },
		"streams": func(t *testing.T, held func(), w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: \n\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
			held()
		},
		"hijacks": func(t *testing.T, held func(), w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			time.Sleep(time.Hour)
			held()
		},
	} {
		bubble(t, name, func(t *testing.T) {
			lim := inflightOf(t, 1)
			s := newSite(t, Config{Rules: []Rule{ruleOf("in-flight", lim)}, PerClass: Auto}, func(w http.ResponseWriter, _ *http.Request) {
				held := func() {
					if n := lim.Stats().Units; n != 1 {
						t.Errorf("%d units are held in the handler: want one", n)
					}
				}
				held()
				run(t, held, w)
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				s.handler.ServeHTTP(&hijackable{ResponseRecorder: httptest.NewRecorder()}, testrig.Request("GET", "/", "X-Client: a"))
			}()
			<-done
			if n := lim.Stats().Units; n != 0 {
				t.Errorf("%d units are held after the handler: want none", n)
			}
		})
	}
}

// What a rule has granted goes back if a later limit refuses the request, whatever the limiter is.
func TestRefundsOfDeciders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		win, err := keyed.NewWindows[string](keyed.Window{Limit: 5, Period: time.Minute}, keyed.Config{})
		testrig.Must(t, err)
		lim := inflightOf(t, 3)
		held := 0
		own := deciding(func(n int) (keyed.Verdict, error) {
			held += n
			return keyed.Verdict{
				Decision: weir.Decision{OK: true, Remaining: 9 - held}, Policy: keyed.Policy{Limit: 9, Rate: 0.1},
				Permit: weir.NewPermit(func(weir.Outcome) { held -= n }),
			}, nil
		})
		s := newSite(t, Config{
			Rules:   []Rule{ruleOf("window", win), ruleOf("in-flight", lim), ruleOf("own", own)},
			Limiter: testrig.Rejecting(weir.Reject(weir.QueueFull, 0), 1),
		}, nil)
		for _, tt := range []struct {
			status        int
			policy, limit string
		}{
			{200, `"window";q=5;w=60, "in-flight";q=3;qu="concurrent-requests", "own";q=9;w=90`, `"window";r=4;t=60, "in-flight";r=2, "own";r=8`},
			{503, `"window";q=5;w=60, "in-flight";q=3;qu="concurrent-requests", "own";q=9;w=90`, `"window";r=4;t=60, "in-flight";r=3, "own";r=9`},
		} {
			w := s.get(tt.status, "/", "X-Client: a")
			if p, l := w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"); p != tt.policy || l != tt.limit {
				t.Errorf("%d: %s; %s: want %s; %s", tt.status, p, l, tt.policy, tt.limit)
			}
			if used := 5 - win.Take("a", 0).Remaining; used != 1 || lim.Stats().Units != 0 || held != 0 {
				t.Errorf("%d: %d in the window, %d in flight, %d of its own", tt.status, used, lim.Stats().Units, held)
			}
		}
	})
}

type deciding func(n int) (keyed.Verdict, error)

func (d deciding) Decide(_ context.Context, _ string, n int) (keyed.Verdict, error) { return d(n) }

// Clients are told of windows when more comes, of sliding ones only if they were denied, and
// nothing of a limiter that has failed or has an unknown policy.
func TestFieldsOfDeciders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := func(w keyed.Window) keyed.Decider[string] {
			lim, err := keyed.NewWindows[string](w, keyed.Config{})
			testrig.Must(t, err)
			return lim
		}
		const none = "; "
		for name, tt := range map[string]struct {
			lim  keyed.Decider[string]
			want []string
		}{
			"window": {windows(keyed.Window{Limit: 1, Period: 90 * time.Second}), []string{
				`"rule";q=1;w=90; "rule";r=0;t=90`, `"rule";q=1;w=90; "rule";r=0;t=90`}},
			"sliding": {windows(keyed.Window{Limit: 1, Period: 90 * time.Second, Calendar: keyed.Sliding}), []string{
				`"rule";q=1;w=90; "rule";r=0`, `"rule";q=1;w=90; "rule";r=0;t=180`}},
			"unknown": {deciding(func(int) (keyed.Verdict, error) { return keyed.Verdict{}, nil }), []string{none, none}},
			"failed":  {deciding(func(int) (keyed.Verdict, error) { return keyed.Verdict{}, errors.New("broken") }), []string{none, none}},
		} {
			s := newSite(t, Config{Rules: []Rule{ruleOf("rule", tt.lim)}}, nil)
			for i, want := range tt.want {
				h := s.do(testrig.Request("GET", "/", "X-Client: a")).Header()
				if got := h.Get("RateLimit-Policy") + "; " + h.Get("RateLimit"); got != want {
					t.Errorf("%s, request %d: %s: want %s", name, i, got, want)
				}
			}
		}
	})
}
