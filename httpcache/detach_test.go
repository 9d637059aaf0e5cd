package httpcache

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/testrig"
)

// A request that waits for a response that must be streamed does not wait for its
// end, even if the handler heeds neither errors nor its context. The handler
// holds its permit until it has ended.
func TestARefusedResponseReleasesItsWaitersAtOnce(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"event stream": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
		"trailer":      func(w http.ResponseWriter) { w.Header().Set("Trailer", "X") },
		"too large":    func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("x", 101)) },
		"declared":     func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000") },
	} {
		synctest.Test(t, func(t *testing.T) {
			lim := new(testrig.Limiter)
			g := newRig(t, Config{DefaultTTL: time.Minute, MaxBody: 100, Refresh: cache.Refresh{Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				w.(http.Flusher).Flush()
				time.Sleep(time.Hour)
				_, _ = io.WriteString(w, "late")
				w.Header().Set("X", "late")
				panic(http.ErrAbortHandler)
			})
			for range 3 {
				go func() {
					defer func() { _ = recover() }()
					g.get("/")
				}()
			}
			synctest.Wait()
			lim.WantHeld(t, 4, name+": one run without a waiter, and one for each request")
			time.Sleep(time.Hour)
			synctest.Wait()
			lim.WantHeld(t, 0, name+": at the end")
		})
	}
}

// What goroutines of the handler write after its end, or when it is refused,
// goes nowhere.
func TestLateWritesAreHarmless(t *testing.T) {
	for _, limit := range []int64{100, 5} {
		var wg sync.WaitGroup
		g := newRig(t, Config{DefaultTTL: time.Minute, MaxBody: limit}, func(w http.ResponseWriter, r *http.Request) {
			if _, ok := w.(*buffer); !ok {
				return // it was refused
			}
			fmt.Fprint(w, "text")
			for range 2 {
				go func() {
					defer wg.Done()
					for err := error(nil); err == nil; {
						w.WriteHeader(500)
						w.(http.Flusher).Flush()
						_, err = io.WriteString(w, "x")
					}
				}()
			}
			runtime.Gosched()
		})
		for i := range 20 {
			url := fmt.Sprint("/", i)
			wg.Add(2)
			w := g.get(url)
			wg.Wait()
			if again := g.get(url); w.Code != 200 || again.Body.String() != w.Body.String() {
				t.Errorf("%d %s, and then %s", w.Code, w.Body, again.Body)
			}
		}
	}
}

// An event stream that the client asks for is not begun twice.
func TestEventStreamsPass(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("data: x\n\n", "Content-Type: text/event-stream"))
	for i, accept := range []string{"text/event-stream", "text/html, Text/Event-Stream;q=0.5"} {
		g.get("/", "Accept: "+accept)
		g.ran(int64(i)+1, "once each time")
	}
	if s := g.Stats(); s.Passed != 2 || s.Entries != 0 {
		t.Errorf("%+v", s)
	}
}

// The log of net/http shows where the handler panicked.
func TestAPanicShowsTheHandlersStack(t *testing.T) {
	lim := new(testrig.Limiter)
	g := newRig(t, Config{Refresh: cache.Refresh{ErrorTTL: time.Minute, Limiter: lim}}, (&answers{panics: errOops}).serve)
	for range 2 {
		func() {
			defer func() {
				err, _ := recover().(error)
				p, ok := errors.AsType[*flight.PanicError](err)
				if !ok || p.Value != errOops || !errors.Is(err, errOops) {
					t.Errorf("%v: want a panic with %v", err, errOops)
				}
				if s := fmt.Sprint(err); !strings.Contains(s, "oops") || !strings.Contains(s, "(*answers).serve") {
					t.Errorf("%s: want value and stack", s)
				}
			}()
			g.get("/")
		}()
	}
	g.ran(2, "a panic is not kept")
	lim.WantEnded(t, weir.Ignored, weir.Ignored)
}

var errOops = errors.New("oops")

// However a refused handler ends, and however soon, it is run past the cache;
// and its first run is told to end.
func TestHowARefusedRunEndsDoesNotMatter(t *testing.T) {
	for name, end := range map[string]func(*http.Request){
		"returns": func(*http.Request) {},
		"panics":  func(*http.Request) { panic(http.ErrAbortHandler) },
		"exits":   func(*http.Request) { runtime.Goexit() },
		"waits":   func(r *http.Request) { <-r.Context().Done() },
	} {
		var refused sync.WaitGroup
		g := newRig(t, Config{DefaultTTL: time.Minute, MaxBody: 10}, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "more than ten bytes")
			if _, ok := w.(*buffer); ok {
				defer refused.Done()
				end(r)
			}
		})
		for i := range 200 {
			w := httptest.NewRecorder()
			refused.Add(1)
			if g.handler.ServeHTTP(w, testrig.Request("GET", fmt.Sprint("/", i))); w.Code != 200 || w.Body.Len() != 19 {
				t.Fatalf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		refused.Wait()
	}
}

func TestAGoexitIsNotKept(t *testing.T) {
	g := newRig(t, Config{Refresh: cache.Refresh{ErrorTTL: time.Minute}}, func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	g.get("/")
	g.get("/")
	g.ran(2, "each time")
}
