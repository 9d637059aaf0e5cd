package httpcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/testrig"
)

// answers is a handler that does what it is told.
type answers struct {
	status  int
	headers []string
	panics  any
}

func (a *answers) serve(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Second)
	if a.panics != nil {
		panic(a.panics)
	}
	testrig.AddHeader(w.Header(), a.headers...)
	w.WriteHeader(a.status)
	fmt.Fprint(w, a.status)
}

func TestAnOldResponseInPlaceOfAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{status: 200}
		g := newRig(t, Config{DefaultTTL: 10 * time.Second, Refresh: cache.Refresh{StaleIfError: 20 * time.Second, StaleIfRejected: 40 * time.Second}}, a.serve)
		g.get("/")
		time.Sleep(11 * time.Second) // it is 1 s old
		a.status = 500
		is(t, g.get("/"), 200, "200", "weir; hit; ttl=-2")
		a.panics = "oops"
		is(t, g.get("/"), 200, "200", "weir; hit; ttl=-3")
		a.panics = nil
		a.headers = []string{"Set-Cookie: a=b"}
		is(t, g.get("/"), 200, "200", "weir; hit; ttl=-4")
		a.headers = nil
		time.Sleep(20 * time.Second)
		is(t, g.get("/"), 500, "500", "weir; fwd=miss")
		for _, a.status = range []int{503, 429} {
			if w := g.get("/"); w.Body.String() != "200" {
				t.Errorf("%s: want the old one while rejected", w.Body)
			}
		}
		time.Sleep(20 * time.Second)
		is(t, g.get("/"), 429, "429", "weir; fwd=miss")
		g.ran(8, "once each time")
	})
}

// A response says whether it may be sent when it is no longer fresh (RFC 9111, 4.2.4).
func TestRevalidation(t *testing.T) {
	for control, strict := range map[string]bool{
		"max-age=10":                                     false,
		"max-age=10, must-revalidate":                    true,
		"max-age=10, Proxy-Revalidate":                   true,
		"public, s-maxage=10":                            true,
		"s-maxage=10, stale-while-revalidate=5":          false,
		"s-maxage=10, stale-if-error=5":                  false,
		"s-maxage=10, stale-if-error=5, must-revalidate": true,
		"s-maxage=10, stale-while-revalidate=0":          true,
		"s-maxage=10, stale-if-error":                    true,
		`s-maxage=10, stale-if-error="5"`:                false,
		`max-age=10, extension="must-revalidate, a"`:     false,
	} {
		t.Run(control, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answers{status: 200, headers: []string{"Cache-Control: " + control}}
				g := newRig(t, Config{Refresh: cache.Refresh{Stale: time.Second, StaleIfError: time.Hour, StaleIfRejected: time.Hour}}, a.serve)
				g.get("/")
				time.Sleep(9 * time.Second)
				is(t, g.get("/"), 200, "200", "weir; hit; ttl=1")
				var i int
				for i, a.status = range []int{500, 503, 502} {
					time.Sleep(time.Duration(1+i) * time.Second)
					if w := g.get("/"); strict != (w.Code == a.status) {
						t.Errorf("%d from the handler: got %d: may an old response be sent? %v", a.status, w.Code, !strict)
					}
				}
				a.status = 200
				is(t, g.get("/"), 200, "200", "weir; fwd=miss; stored")
			})
		})
	}
}

func TestErrorsGoToAllWhoWait(t *testing.T) {
	for _, tt := range []struct {
		status  int
		headers string
		runs    int64 // for five, and a sixth later
	}{
		{500, "X: y", 2}, {503, "X: y", 2}, {429, "X: y", 2}, {500, "Set-Cookie: a=b", 6}, {503, "Set-Cookie: a=b", 6},
		{502, "Cache-Control: private", 6}, {500, "Vary: Who", 6}, {500, "Vary: Nothing", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &answers{status: tt.status, headers: []string{tt.headers}}
			g := newRig(t, Config{DefaultTTL: time.Minute}, a.serve)
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					if w := g.get("/", fmt.Sprint("Who: ", i)); w.Code != tt.status || w.Body.String() != fmt.Sprint(tt.status) {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			}
			wg.Wait()
			// A response for one client only is remembered as such.
			pass := tt.runs == 6 && !strings.HasPrefix(tt.headers, "Vary")
			if got := g.get("/").Header().Get("Cache-Status"); (got == bypass) != pass {
				t.Errorf("%d %s: %s: want pass %v", tt.status, tt.headers, got, pass)
			}
			g.ran(tt.runs, fmt.Sprint(tt.status, " ", tt.headers))
		})
	}
}

// A limiter behind the cache rejects a request. Afterwards the resource is cached as ever.
func TestRejectionBehindTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			if full {
				httplimit.Reject(w, r, &weir.Rejection{Reason: weir.QueueFull})
				return
			}
			fmt.Fprint(w, "hello")
		})
		for range 3 {
			if w := g.get("/"); w.Code != 503 || w.Header().Get("Cache-Status") != "weir; fwd=miss" {
				t.Errorf("%d, %s: want 503 of a miss", w.Code, w.Header().Get("Cache-Status"))
			}
		}
		full = false
		is(t, g.get("/"), 200, "hello", "weir; fwd=miss; stored")
		is(t, g.get("/"), 200, "hello", "weir; hit; ttl=60")
	})
}

func TestErrorTTLKeepsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{status: 500}
		g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{ErrorTTL: 5 * time.Second}}, a.serve)
		is(t, g.get("/"), 500, "500", "weir; fwd=miss")
		time.Sleep(time.Second)
		is(t, g.get("/"), 500, "500", "weir; hit; ttl=4")
		time.Sleep(4 * time.Second)
		a.status = 503
		is(t, g.get("/"), 503, "503", "weir; fwd=miss")
		is(t, g.get("/"), 503, "503", "weir; fwd=miss")
		a.status, a.headers = 500, []string{"Set-Cookie: a=b"}
		is(t, g.get("/"), 500, "500", "weir; fwd=miss")
		is(t, g.get("/"), 500, "500", "weir; fwd=bypass")
		g.ran(5, "after all")
	})
}

func TestEveryWaiterPanics(t *testing.T) {
	for _, value := range []any{"oops", http.ErrAbortHandler} {
		synctest.Test(t, func(t *testing.T) {
			lim := new(testrig.Limiter)
			a := &answers{status: 200, panics: value}
			g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{ErrorTTL: time.Minute, Limiter: lim}}, a.serve)
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					defer func() {
						p := recover()
						err, _ := errors.AsType[*flight.PanicError](asError(p))
						ok := err != nil
						if p != value && (!ok || err.Value != value || value == http.ErrAbortHandler) {
							t.Errorf("%v: want %v", p, value)
						}
						if ok && !strings.Contains(string(err.Stack), "(*answers).serve") {
							t.Errorf("%s: want the handler in it", err.Stack)
						}
					}()
					g.get("/")
				})
			}
			wg.Wait()
			g.ran(1, "for all of them")
			a.panics = nil
			is(t, g.get("/"), 200, "200", "weir; fwd=miss; stored")
			lim.WantEnded(t, weir.Ignored, weir.Success)
			if s := g.Stats(); s.Lookups[cache.Failed] != 5 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func asError(p any) error {
	err, _ := p.(error)
	return err
}

func TestHandlersThatEndOddly(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"short":  text("12", "Content-Length: 3"),
		"goexit": func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
	} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, h)
		for range 2 {
			if w := g.get("/"); w.Code != 500 || !strings.Contains(w.Body.String(), `"reason":"failed"`) {
				t.Errorf("%s: %d %s: want 500", name, w.Code, w.Body)
			}
		}
		g.ran(2, name+" is not kept")
	}
}

// The status of a run decides its outcome, for the cache or past it.
func TestOutcomes(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for status, want := range map[int]weir.Outcome{
			200: weir.Success, 302: weir.Success, 404: weir.Ignored, 429: weir.Ignored, 500: weir.Ignored,
			502: weir.Ignored, 503: weir.Dropped, 504: weir.Dropped,
		} {
			lim := new(testrig.Limiter)
			g := newRig(t, Config{Refresh: cache.Refresh{Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
				if status != 200 {
					w.WriteHeader(status)
				}
			})
			g.do(testrig.Request(method, "/"))
			if got := lim.Outcomes(); len(got) != 1 || got[0] != want || lim.Held() != 0 {
				t.Errorf("%s %d: %v: want %v", method, status, got, want)
			}
		}
	}
}

func TestAPanicPastTheCacheReleases(t *testing.T) {
	lim := new(testrig.Limiter)
	g := newRig(t, Config{Refresh: cache.Refresh{Limiter: lim}}, func(http.ResponseWriter, *http.Request) { panic("oops") })
	func() {
		defer func() { _ = recover() }()
		g.do(testrig.Request("POST", "/"))
	}()
	lim.WantEnded(t, weir.Ignored)
}

// A resource that may not be shared, old, while its refresh is refused: the
// limiter is asked once.
func TestARefusedPassIsRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := new(testrig.Limiter)
		g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, StaleIfRejected: time.Minute, Limiter: lim}},
			text("v", "Cache-Control: private"))
		g.get("/")
		time.Sleep(61 * time.Second)
		lim.Reject(weir.Reject(weir.OverLimit, 0))
		if w := g.get("/"); w.Code != 503 || len(lim.Asked()) != 2 {
			t.Errorf("%d, asked %d times: want 503, once more", w.Code, len(lim.Asked()))
		}
	})
}

func TestAFailureIsARejectionIfItSaysSo(t *testing.T) {
	for status, want := range map[int]bool{500: false, 503: true, 429: true, 504: false} {
		f := &failure{status: status}
		if errors.Is(f, weir.ErrRejected) != want {
			t.Errorf("%d: %v", status, f)
		}
	}
}

// The private response of a client that has left goes to no other.
func TestFollowersOfAPrivateErrorWhoseLeaderLeft(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{ErrorTTL: ttl}}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				w.Header().Set("Set-Cookie", r.Header.Get("Who"))
				w.WriteHeader(500)
			})
			ctx, leave := context.WithCancel(t.Context())
			go g.do(testrig.Request("GET", "/", "Who: leader").WithContext(ctx))
			synctest.Wait()
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					who := fmt.Sprint("client=", i)
					if got := g.get("/", "Who: "+who).Header().Get("Set-Cookie"); got != who {
						t.Errorf("%s got the cookie of %s", who, got)
					}
				})
			}
			synctest.Wait()
			leave()
			wg.Wait()
			g.ran(6, "for each")
		})
	}
}

// A kept error does not go to requests with other values of the headers in its
// Vary.
func TestErrorTTLAndVary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{status: 500, headers: []string{"Vary: Who"}}
		g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{ErrorTTL: time.Minute}}, a.serve)
		is(t, g.get("/", "Who: 1"), 500, "500", "weir; fwd=miss")
		is(t, g.get("/", "Who: 2"), 500, "500", "weir; fwd=miss")
	})
}

func TestKeptErrorsCountAsMemory(t *testing.T) {
	g := newRig(t, Config{Bytes: 80_000, MaxBody: 1000, Refresh: cache.Refresh{ErrorTTL: time.Minute}}, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, strings.Repeat("x", 900), 500)
	})
	for i := range 200 {
		g.get(fmt.Sprint("/", i))
	}
	g.ran(200, "each")
	if s := g.Stats(); s.Bytes > 80_000 || g.errors.Stats().Entries > 6 || g.errors.Stats().Entries < 2 {
		t.Errorf("%+v, %+v", s, g.errors.Stats())
	}
	if g.Purge(); g.Stats().Bytes != 0 {
		t.Errorf("%+v: want nothing after Purge", g.Stats())
	}
}
