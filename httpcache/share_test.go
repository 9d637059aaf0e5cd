package httpcache

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/testrig"
)

// The clients that may get a response: of five at once, and one later.
func TestWhatIsShared(t *testing.T) {
	for _, tt := range []struct {
		name    string
		shared  bool
		status  int
		headers []string // of the response
		request []string
	}{
		{"plain", true, 200, nil, nil},
		{"Set-Cookie", false, 200, []string{"Set-Cookie: a=b", "Cache-Control: public, max-age=9"}, nil},
		{"private", false, 200, []string{"Cache-Control: max-age=9,Private"}, nil},
		{"private header", false, 200, []string{`Cache-Control: private="x, y", max-age=9`}, nil},
		{"no-store", false, 200, []string{"Cache-Control: max-age=9", "Cache-Control: no-store"}, nil},
		{"no-cache header", false, 200, []string{`Cache-Control: no-cache="Set-Cookie"`}, nil},
		{"quoted", true, 200, []string{`Cache-Control: x="a, private, \", no-store, b"`}, nil},
		{"empty directives", true, 200, []string{"Cache-Control: , max-age=9,,\t, ", "Cache-Control: "}, nil},
		{"Vary *", false, 200, []string{"Vary: Accept, *"}, nil},
		{"203", true, 203, nil, nil},
		{"204", true, 204, nil, nil},
		{"301", true, 301, nil, nil},
		{"404", true, 404, nil, nil},
		{"501", true, 501, nil, nil},
		{"201", false, 201, []string{"Cache-Control: max-age=9"}, nil},
		{"206", false, 206, []string{"Cache-Control: max-age=9"}, nil},
		{"302", false, 302, []string{"Cache-Control: max-age=9"}, nil},
		{"304", false, 304, []string{"Cache-Control: max-age=9"}, nil},
		{"403", false, 403, nil, nil},
		{"Cookie, public, no longer fresh", false, 200, []string{"Cache-Control: public, max-age=0"}, []string{"Cookie: a=b"}},
		{"Cookie", false, 200, []string{"Cache-Control: max-age=9"}, []string{"Cookie: a=b"}},
		{"Authorization", false, 200, []string{"Cache-Control: max-age=9"}, []string{"Authorization: Basic x"}},
		{"Cookie, public", true, 200, []string{"Cache-Control: public"}, []string{"Cookie: a=b"}},
		{"Authorization, s-maxage", true, 200, []string{"Cache-Control: s-maxage=9"}, []string{"Authorization: Basic x"}},
		{"Authorization, must-revalidate", false, 200, []string{"Cache-Control: must-revalidate"}, []string{"Authorization: Basic x"}},
		{"event stream", false, 200, []string{"Content-Type: Text/Event-Stream; charset=utf-8"}, nil},
		{"trailer", false, 200, []string{"Trailer: X"}, nil},
		{"trailer not announced", false, 200, []string{http.TrailerPrefix + "X: y"}, nil},
		{"declared too large", false, 200, []string{"Content-Length: 101"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{DefaultTTL: time.Minute, MaxBody: 100}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				testrig.AddHeader(w.Header(), tt.headers...)
				w.WriteHeader(tt.status)
				fmt.Fprint(w, r.Header.Get("X-Client"))
			})
			var wg sync.WaitGroup
			var other atomic.Bool // has got what was made for another
			for i := range 5 {
				wg.Go(func() {
					me := fmt.Sprint("X-Client: ", i)
					w := g.get("/", append(tt.request, me)...)
					if w.Code != tt.status {
						t.Errorf("%s: status %d", tt.name, w.Code)
					}
					if w.Code != 204 && w.Code != 304 && w.Body.String() != me[len("X-Client: "):] {
						other.Store(true)
					}
				})
			}
			wg.Wait()
			g.get("/", tt.request...)
			if ran := g.runs.Load(); (ran == 1) != tt.shared || !tt.shared && ran < 6 || other.Load() && !tt.shared {
				t.Errorf("%s: the handler ran %d times, answers went to others: %v: want shared %v", tt.name, ran, other.Load(), tt.shared)
			}
		})
	}
}

func TestIgnoredCookiesAreNotSeen(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute, IgnoreCookies: true}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Cookie")
		fmt.Fprint(w, r.Header.Get("Cookie"))
	})
	r := testrig.Request("GET", "/", "Cookie: a=b")
	if w := g.do(r); w.Body.String() != "" || r.Header.Get("Cookie") != "a=b" {
		t.Errorf("%q: want no cookie, but in the client's request", w.Body)
	}
	g.get("/", "Cookie: c=d")
	g.get("/")
	g.ran(1, "whatever the cookie")
}

// Requests with credentials do not keep others from sharing.
func TestCredentialsDoNotPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "hello "+r.Header.Get("Cookie"))
		})
		for _, status := range []string{"weir; fwd=miss", "weir; fwd=bypass", "weir; fwd=bypass"} {
			is(t, g.get("/", "Cookie: me"), 200, "hello me", status)
		}
		is(t, g.get("/"), 200, "hello ", "weir; fwd=miss; stored")
		is(t, g.get("/"), 200, "hello ", "weir; hit; ttl=60")
	})
}

func TestFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, tt := range []struct {
			seconds int
			headers []string
		}{
			{10, nil},
			{5, []string{"Cache-Control: max-age=5", "Expires: " + at(time.Hour)}},
			{7, []string{`Cache-Control: max-age=5, S-MaxAge="7"`}},
			{0, []string{"Cache-Control: max-age=5, s-maxage=0"}},
			{3, []string{"Cache-Control: max-age=3", "Cache-Control: max-age=5"}},
			{2, []string{"Cache-Control: max-age=5", "Age: 3"}},
			{8, []string{"Age: 2"}},
			{0, []string{"Cache-Control: max-age=5", "Age: 6"}},
			{0, []string{"Cache-Control: max-age=never"}},
			{0, []string{"Cache-Control: max-age=-1"}},
			{30, []string{"Expires: " + at(30*time.Second)}},
			{30, []string{"Expires: " + at(30*time.Second), "Date: " + at(-time.Minute)}},
			{0, []string{"Expires: 0"}},
			{0, []string{"Expires: Mon, 01 Jan 0001 00:00:00 GMT", "Date: Fri, 31 Dec 9999 00:00:00 GMT", "Age: 5"}},
			{0, []string{"Expires: " + at(-time.Second)}},
			{1 << 31, []string{"Cache-Control: max-age=99999999999999999999"}},
		} {
			g := newRig(t, Config{DefaultTTL: 10 * time.Second}, text("v", tt.headers...))
			g.get("/")
			w := g.get("/")
			want := fmt.Sprintf("weir; hit; ttl=%d", tt.seconds)
			if tt.seconds == 0 {
				want = "weir; fwd=miss"
			}
			if got := w.Header().Get("Cache-Status"); got != want {
				t.Errorf("%v: %s: want %s", tt.headers, got, want)
			}
		}
		g := newRig(t, Config{}, text("v"))
		g.get("/")
		g.get("/")
		g.ran(2, "without a TTL at all")
		g = newRig(t, Config{DefaultTTL: 100 * time.Second, Refresh: cache.Refresh{Jitter: 0.5}}, text("v"))
		ttls := map[string]bool{}
		for i := range 20 {
			g.get(fmt.Sprint("/", i))
			ttls[g.get(fmt.Sprint("/", i)).Header().Get("Cache-Status")] = true
		}
		if len(ttls) < 3 {
			t.Errorf("%v: want various", ttls)
		}
	})
}

func TestAgeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, text("v", "Age: 30", "Cache-Status: origin; hit"))
		if w := g.get("/"); w.Header().Get("Age") != "30" {
			t.Errorf("Age %s: want the response's own", w.Header().Get("Age"))
		}
		time.Sleep(5 * time.Second)
		w := g.get("/")
		if got := strings.Join(w.Header()["Cache-Status"], ", "); w.Header().Get("Age") != "35" || got != "origin; hit, weir; hit; ttl=25" {
			t.Errorf("Age %s, %s", w.Header().Get("Age"), got)
		}
	})
}

// Requests that wait for a response that is private run the handler at the same
// time; and for a while no request waits for another.
func TestAPrivateResponseSerialisesNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := new(testrig.Limiter)
		g := newRig(t, Config{DefaultTTL: time.Minute, Pass: 30 * time.Second, Refresh: cache.Refresh{Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Cache-Control", "private")
			fmt.Fprint(w, r.Header.Get("Who"))
		})
		wave := func(want time.Duration, when string) {
			t.Helper()
			begun := time.Now()
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					if w := g.get("/", fmt.Sprint("Who: ", i)); w.Body.String() != fmt.Sprint(i) {
						t.Errorf("%d got the answer of %s", i, w.Body)
					}
				})
			}
			wg.Wait()
			if took := time.Since(begun); took != want {
				t.Errorf("%s: took %v: want %v", when, took, want)
			}
		}
		wave(2*time.Second, "at first")
		wave(time.Second, "while it is known")
		time.Sleep(30 * time.Second)
		wave(2*time.Second, "when it is forgotten")
		if s := g.Stats(); s.Lookups[cache.Filled] != 2 || s.Passed != 148 || len(lim.Asked()) != 150 || lim.Held() != 0 {
			t.Errorf("%+v, the limiter was asked %d times, %d are held", s, len(lim.Asked()), lim.Held())
		}
	})
}

func TestVariantsAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", " accept , ")
			if r.Header.Get("Accept") == "b" {
				w.Header().Add("Vary", "X-Also")
			}
			fmt.Fprint(w, r.Header.Get("Accept"), r.Header.Get("X-Also"))
		})
		const stored = "weir; fwd=miss; stored"
		is(t, g.get("/", "Accept: a"), 200, "a", stored)
		is(t, g.get("/", "Accept:  a "), 200, "a", "weir; hit; ttl=60")
		is(t, g.get("/"), 200, "", stored)
		is(t, g.get("/"), 200, "", "weir; hit; ttl=60")
		// With another header, the response is made again, once.
		is(t, g.get("/", "Accept: b", "X-Also: 1"), 200, "b1", stored)
		is(t, g.get("/", "Accept: b", "X-Also: 2"), 200, "b2", stored)
		is(t, g.get("/", "Accept: a"), 200, "a", stored)
		for range 2 {
			is(t, g.get("/", "Accept: a"), 200, "a", "weir; hit; ttl=60")
			is(t, g.get("/", "Accept: b", "X-Also: 1"), 200, "b1", "weir; hit; ttl=60")
			is(t, g.get("/", "Accept: b", "X-Also: 2"), 200, "b2", "weir; hit; ttl=60")
		}
	})
}

// Followers with other header values than the leader wait for another run.
func TestFollowersOfAnotherVariant(t *testing.T) {
	for _, headers := range [][]string{{"Vary: Lang"}, {"Vary: Lang", "Cache-Control: max-age=0"}} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				text(r.Header.Get("Lang"), headers...)(w, r)
			})
			var wg sync.WaitGroup
			for i := range 60 {
				wg.Go(func() {
					lang := fmt.Sprint("l", i%3)
					if w := g.get("/", "Lang: "+lang); w.Body.String() != lang {
						t.Errorf("%s got %s", lang, w.Body)
					}
				})
			}
			wg.Wait()
			if n := g.runs.Load(); n < 3 || n > 4 {
				t.Errorf("%v: the handler ran %d times: want one for each variant, and perhaps the first again", headers, n)
			}
		})
	}
}

// Headers that only some responses name all count, and one is not taken for
// another.
func TestVaryGrows(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", map[bool]string{true: "A", false: "B"}[r.Header.Get("A") != ""])
		fmt.Fprint(w, r.Header.Get("A"), "/", r.Header.Get("B"))
	})
	for i := range 4 {
		before := g.runs.Load()
		for _, tt := range [][]string{{"1/", "A: 1"}, {"/1", "B: 1"}, {"/", "C: 1"}, {"2/", "A: 2"}} {
			if w := g.get("/", tt[1:]...); w.Body.String() != tt[0] {
				t.Errorf("%s: %s", tt, w.Body)
			}
		}
		if i > 1 {
			g.ran(before, "once all is known")
		}
	}
}

// Followers of a variant with a response that varies by more headers than known.
func TestFollowersWhileVaryGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vary := "A"
		g := newRig(t, Config{DefaultTTL: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Vary", vary)
			fmt.Fprint(w, r.Header.Get("B"))
		})
		g.get("/", "A: 1", "B: 0")
		time.Sleep(2 * time.Second)
		vary = "A, B"
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				b := fmt.Sprint(i % 3)
				if w := g.get("/", "A: 1", "B: "+b); w.Body.String() != b {
					t.Errorf("%s got %s", b, w.Body)
				}
			})
		}
		wg.Wait()
		g.ran(4, "the first, and once for each variant")
	})
}

func TestNotKeptIsNotSaidToBeStored(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("v", "Vary: A", "Cache-Control: max-age=0"))
	for range 3 {
		is(t, g.get("/"), 200, "v", "weir; fwd=miss")
	}
}
