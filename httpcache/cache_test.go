package httpcache

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
)

func TestAResponseIsKeptForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: 10 * time.Second}, text("hello"))
		is(t, g.get("/a"), 200, "hello", "weir; fwd=miss; stored")
		time.Sleep(2500 * time.Millisecond)
		w := g.get("/a")
		is(t, w, 200, "hello", "weir; hit; ttl=7")
		for name, want := range map[string]string{
			"Age": "2", "Content-Length": "5", "Content-Type": "text/plain; charset=utf-8",
			"Date": time.Now().Add(-2500 * time.Millisecond).UTC().Format(http.TimeFormat),
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q: want %q", name, got, want)
			}
		}
		g.ran(1, "while fresh")
		is(t, g.get("/a?b"), 200, "hello", "weir; fwd=miss; stored")
		g.ran(2, "another query")
		time.Sleep(7500 * time.Millisecond)
		is(t, g.get("/a"), 200, "hello", "weir; fwd=miss; stored")
		g.ran(3, "after the TTL")
	})
}

func TestOneRunForAThousandColdClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			fmt.Fprint(w, "done")
		})
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if w := g.get("/"); w.Code != 200 || w.Body.String() != "done" {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		g.ran(1, "after all")
		if s := g.Stats(); s.Lookups[cache.Filled] != 1 || s.Lookups[cache.Coalesced] != 999 {
			t.Errorf("%+v", s)
		}
	})
}

// The leader's client leaves; the others have their answer from the same run.
func TestTheLeadersLeavingCancelsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Second):
				fmt.Fprint(w, "done")
			case <-r.Context().Done():
			}
		})
		ctx, leave := context.WithCancel(t.Context())
		go g.do(testrig.Request("GET", "/").WithContext(ctx))
		synctest.Wait()
		var wg sync.WaitGroup
		wg.Go(func() { is(t, g.get("/"), 200, "done", "weir; fwd=miss; collapsed") })
		synctest.Wait()
		leave()
		wg.Wait()
		g.ran(1, "after all")
	})
}

// All have left, and the handler returns without an answer: that is none.
func TestWhatWasCancelledIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Second):
				fmt.Fprint(w, "done")
			case <-r.Context().Done():
			}
		})
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		if w := g.do(testrig.Request("GET", "/").WithContext(ctx)); w.Code != 504 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v: want 504", w.Code, w.Header())
		}
		is(t, g.get("/"), 200, "done", "weir; fwd=miss; stored")
		g.ran(2, "after all")
	})
}

func TestTimeoutIs504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := new(testrig.Limiter)
		g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{Timeout: time.Second, Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		})
		if w := g.get("/"); w.Code != 504 || !strings.Contains(w.Body.String(), `"reason":"timeout"`) {
			t.Errorf("%d %s: want 504", w.Code, w.Body)
		}
		lim.WantEnded(t, outcome.Late)
	})
}

func TestAHitIsNeverRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := new(testrig.Limiter)
		g := newRig(t, Config{DefaultTTL: 10 * time.Second, Refresh: cache.Refresh{StaleIfRejected: 20 * time.Second, Limiter: lim}}, text("v"))
		g.get("/")
		lim.Reject(weir.Reject(weir.QueueFull, 1500*time.Millisecond))
		for range 100 {
			is(t, g.get("/"), 200, "v", "weir; hit; ttl=10")
		}
		if n := len(lim.Asked()); n != 1 {
			t.Errorf("the limiter was asked %d times: want 1", n)
		}
		time.Sleep(13 * time.Second)
		is(t, g.get("/"), 200, "v", "weir; hit; ttl=-3")
		time.Sleep(17 * time.Second)
		w := g.get("/")
		if w.Code != 503 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d %v: want a 503", w.Code, w.Header())
		}
		if s := g.Stats(); s.Rejected != 1 || s.Lookups[cache.Stale] != 1 || s.Lookups[cache.Hit] != 100 {
			t.Errorf("%+v", s)
		}
	})
}

func TestStaleWhileOneFetches(t *testing.T) {
	for _, background := range []int{0, 16} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			g := newRig(t, Config{DefaultTTL: 10 * time.Second, Refresh: cache.Refresh{Stale: time.Minute, Background: background}}, func(w http.ResponseWriter, r *http.Request) {
				n++
				time.Sleep(time.Second)
				fmt.Fprint(w, n)
			})
			defer g.Close()
			g.get("/")
			time.Sleep(11 * time.Second)
			go g.get("/")
			synctest.Wait()
			is(t, g.get("/"), 200, "1", "weir; hit; ttl=-1")
			time.Sleep(2 * time.Second)
			is(t, g.get("/"), 200, "2", "weir; hit; ttl=9")
			g.ran(2, "after all")
		})
	}
}

func TestPerKeyLimiterGetsTheKey(t *testing.T) {
	var keys []string
	cfg := Config{DefaultTTL: time.Minute, PerKey: func(key string) weir.Limiter {
		keys = append(keys, key)
		if strings.Contains(key, "no") {
			return testrig.Rejecting(weir.Reject(weir.OverRate, 0), 0)
		}
		return nil
	}}
	g := newRig(t, cfg, text("v"))
	is(t, g.get("/yes?x=1"), 200, "v", "weir; fwd=miss; stored")
	if w := g.get("/no"); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v: want 429", w.Code, w.Header())
	}
	if w := g.do(testrig.Request("POST", "/no")); w.Code != 429 {
		t.Errorf("%d: want 429 past the cache, too", w.Code)
	}
	if got := strings.Join(keys, ","); got != "GET example.com/yes?x=1,GET example.com/no,POST example.com/no" {
		t.Error(got)
	}
}

func TestHandlersAreNotMixed(t *testing.T) {
	a := newRig(t, Config{DefaultTTL: time.Minute, Key: func(*http.Request) (string, bool) { return "same", true }}, text("a"))
	b := a.Handler(text("b"))
	for range 2 {
		if w := a.get("/"); w.Body.String() != "a" {
			t.Errorf("%q: want a", w.Body)
		}
		w := httptest.NewRecorder()
		b.ServeHTTP(w, testrig.Request("GET", "/"))
		if w.Body.String() != "b" {
			t.Errorf("%q: want b", w.Body)
		}
	}
	if s := a.Stats(); s.Lookups[cache.Hit] != 2 || s.Lookups[cache.Filled] != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsPartOfTheKey(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute, Vary: []string{"accept-language"}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public")
		fmt.Fprint(w, r.Method, r.URL, r.Header.Get("Accept-Language"), r.TLS != nil)
	})
	requests := []*http.Request{
		testrig.Request("HEAD", "/"), testrig.Request("GET", "/"), testrig.Request("GET", "/?"+strings.Repeat("q", 10_000)),
		testrig.Request("GET", "/a%2fb"), testrig.Request("GET", "/a/b"), testrig.Request("GET", "http://other/"), testrig.Request("GET", "https://example.com/"),
		testrig.Request("GET", "/", "Accept-Language: de"), testrig.Request("GET", "/", "Accept-Language: en"), testrig.Request("GET", "/", "Accept-Language: "),
		testrig.Request("GET", "/", "Cookie: a=b"),
	}
	for range 2 {
		for _, r := range requests {
			g.do(r)
		}
		g.ran(int64(len(requests)), "after each of them")
	}
	g.get("/", "Accept-Language:  de ", "Authorization: whoever")
	g.get("/", "Accept-Language:  de ", "X-Other: x", "Cache-Control: no-cache, max-age=0", "Pragma: no-cache")
	g.ran(int64(len(requests))+1, "another with credentials, and none for a client's wishes")
}

// A fresh response to GET answers HEAD, with its length and without its body.
func TestHeadIsAnsweredByGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", "Accept")
			w.Header().Set("ETag", `"v"`)
			fmt.Fprint(w, r.Method)
		})
		head := func(runs int64, code int, length string, headers ...string) {
			t.Helper()
			w := g.do(testrig.Request("HEAD", "/", headers...))
			g.ran(runs, strings.Join(headers, ", "))
			if w.Code != code || w.Header().Get("Content-Length") != length || w.Body.Len() > 0 {
				t.Errorf("%v: %d %v %q: want %d and the length %q", headers, w.Code, w.Header(), w.Body, code, length)
			}
		}
		head(1, 200, "4")
		g.get("/")
		head(2, 200, "3")
		head(2, 200, "3", "Cache-Control: no-store")
		head(2, 304, "", `If-None-Match: "v"`)
		head(3, 200, "4", "Accept: other")
		time.Sleep(time.Hour)
		head(4, 200, "4")
	})
}

func TestDeleteAndPurge(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "X")
		w.Header().Set("Cache-Control", "public")
		fmt.Fprint(w, r.Header.Get("X"))
	})
	all := func() {
		for _, r := range []*http.Request{
			testrig.Request("HEAD", "/", "X: 1"), testrig.Request("GET", "/", "X: 1"), testrig.Request("GET", "/", "X: 2"),
			testrig.Request("GET", "/", "X: 1", "Cookie: c"), testrig.Request("GET", "https://example.com/", "X: 1"),
		} {
			if w := g.do(r); w.Body.String() != r.Header.Get("X") && r.Method == "GET" {
				t.Errorf("%q: want %q", w.Body, r.Header.Get("X"))
			}
		}
	}
	g.get("/other")
	all()
	all()
	g.ran(6, "kept")
	g.Delete(testrig.Request("GET", "https://example.com/"))
	all()
	g.ran(11, "after Delete")
	g.get("/other")
	g.ran(11, "of something else")
	g.Purge()
	all()
	g.get("/other")
	g.ran(17, "after Purge")
}

// What was read before a Delete is not kept after it, also where the Vary of
// the response was not known before.
func TestDeleteWhileARunGoesOn(t *testing.T) {
	for _, vary := range []string{"", "Accept"} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
				n++
				body := n
				time.Sleep(time.Second)
				w.Header().Set("Vary", vary)
				fmt.Fprint(w, body)
			})
			var wg sync.WaitGroup
			wg.Go(func() {
				if w := g.get("/"); w.Body.String() != "1" {
					t.Errorf("%q: want 1 for who came before", w.Body)
				}
			})
			synctest.Wait()
			g.Delete(testrig.Request("GET", "/"))
			wg.Wait()
			for range 2 {
				if w := g.get("/"); w.Body.String() != "2" {
					t.Errorf("Vary %q: %q: want 2", vary, w.Body)
				}
			}
		})
	}
}

func TestMemoryIsBoundedHoweverManyVariants(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute, Bytes: 100_000, MaxBody: 10_000}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "X")
		fmt.Fprint(w, strings.Repeat("x", 1000))
	})
	for i := range 1000 {
		g.get("/", fmt.Sprint("X: ", i))
		if s := g.Stats(); s.Bytes > 100_000 {
			t.Fatalf("%d bytes: want at most 100000", s.Bytes)
		}
	}
	if s := g.Stats(); s.Entries < 20 || s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"DefaultTTL = -1ns": {DefaultTTL: -1},
		"ErrorTTL = -1ns":   {Refresh: cache.Refresh{ErrorTTL: -1}},
		"Pass = -1s":        {Pass: -time.Second},
		"Bytes = -1":        {Bytes: -1},
		"MaxBody = 1048577": {Bytes: 1 << 20, MaxBody: 1<<20 + 1},
		"Jitter = 1":        {Refresh: cache.Refresh{Jitter: 1}},
		"Early = -1":        {Refresh: cache.Refresh{Early: -1}},
		`Vary[1] = "*"`:     {Vary: []string{"Accept", "*"}},
	} {
		_, err := New(cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "httpcache: "+field+": ") {
			t.Errorf("%v: want one about %s", err, field)
		}
	}
	if _, err := New(Config{}); err != nil {
		t.Error(err)
	}
}
