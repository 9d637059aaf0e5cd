package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/rate"
)

// A register notes for which classes limiters were made.
type register struct {
	mu   sync.Mutex
	made []string
}

func (g *register) limiter(class string) weir.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made = append(g.made, class)
	return new(testrig.Limiter)
}

func (g *register) are(t *testing.T, want ...string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.made)
	slices.Sort(want)
	if !slices.Equal(g.made, want) {
		t.Errorf("limiters of %.100q: want %.100q", g.made, want)
	}
}

func nothing(http.ResponseWriter, *http.Request) {}

func routes(middleware func(http.Handler) http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /item/{id}", "POST /item/{id}", "/dir/", "other.example/"} {
		mux.Handle(pattern, middleware(http.HandlerFunc(nothing)))
	}
	return mux
}

var visits = []struct{ method, url, pattern string }{
	{"GET", "/item/1", "GET /item/{id}"},
	{"GET", "/item/2?x", "GET /item/{id}"},
	{"HEAD", "/item/2", "GET /item/{id}"},
	{"POST", "/item/1", "POST /item/{id}"},
	{"GET", "/dir/a/b", "/dir/"},
	{"GET", "http://other.example/x", "other.example/"},
}

func TestTheClassIsTheRoutesPattern(t *testing.T) {
	want := map[string]uint64{}
	for _, v := range visits {
		want[v.pattern]++
	}
	check := func(t *testing.T, m *Middleware) {
		t.Helper()
		got := map[string]uint64{}
		for _, c := range m.Stats().Classes {
			if c.Admitted > 0 {
				got[c.Class] = c.Admitted
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: want %v", got, want)
		}
	}
	t.Run("around a mux", func(t *testing.T) {
		var g register
		m := middleware(t, Config{PerClass: g.limiter})
		s := &site{Middleware: m, t: t, handler: m.Handler(routes(func(h http.Handler) http.Handler { return h }))}
		for _, v := range visits {
			if w := s.do(testrig.Request(v.method, v.url)); w.Code != 200 {
				t.Errorf("%v: %d", v, w.Code)
			}
		}
		g.are(t, "GET /item/{id}", "POST /item/{id}", "/dir/", "other.example/")
		check(t, m)
		s.get(404, "/unknown/1")
		s.get(404, "/unknown/2")
		s.do(testrig.Request("PUT", "/item/1")) // 405
		if n := s.counts(""); n.admitted != 3 {
			t.Errorf("what has no route is one class: %+v", n)
		}
	})
	t.Run("around handlers", func(t *testing.T) {
		var g register
		m := middleware(t, Config{PerClass: g.limiter})
		s := &site{Middleware: m, t: t, handler: routes(m.Handler)}
		for _, v := range visits {
			s.do(testrig.Request(v.method, v.url))
		}
		g.are(t, "GET /item/{id}", "POST /item/{id}", "/dir/", "other.example/")
		check(t, m)
	})
	t.Run("around both", func(t *testing.T) {
		m := middleware(t, Config{PerClass: new(register).limiter})
		s := &site{Middleware: m, t: t, handler: m.Handler(routes(m.Handler))}
		s.get(200, "/item/1")
		if n := s.counts("GET /item/{id}"); n.admitted != 2 {
			t.Errorf("%+v: want both in the one class", n)
		}
	})
	t.Run("around a mux of muxes", func(t *testing.T) {
		m := middleware(t, Config{PerClass: new(register).limiter})
		outer, inner, innermost := http.NewServeMux(), http.NewServeMux(), http.NewServeMux()
		outer.Handle("/v1/", inner)
		inner.HandleFunc("GET /v1/a/{id}", nothing)
		inner.Handle("/v1/b/", innermost)
		innermost.HandleFunc("/v1/b/{id}", nothing)
		s := &site{Middleware: m, t: t, handler: m.Handler(outer)}
		s.get(200, "/v1/a/1")
		s.get(200, "/v1/b/1")
		s.get(404, "/v1/c")
		for _, class := range []string{"GET /v1/a/{id}", "/v1/b/{id}", "/v1/"} {
			if n := s.counts(class); n.admitted != 1 {
				t.Errorf("%s: %+v", class, n)
			}
		}
	})
	t.Run("the handler still sees it", func(t *testing.T) {
		m := middleware(t, Config{Deadline: "D", PerClass: Auto})
		mux := http.NewServeMux()
		mux.HandleFunc("/item/{id}", func(_ http.ResponseWriter, r *http.Request) {
			if r.Pattern != "/item/{id}" || r.PathValue("id") != "7" {
				t.Errorf("pattern %q, id %q", r.Pattern, r.PathValue("id"))
			}
		})
		(&site{Middleware: m, t: t, handler: m.Handler(mux)}).get(200, "/item/7", "D: 1s")
	})
}

func TestWhenThereAreClasses(t *testing.T) {
	rule := Overall("q", rate.New(gcra.Unlimited(), rate.Config{}))
	byURL := func(r *http.Request) string { return r.URL.Path }
	for _, tt := range []struct {
		rule string
		cfg  Config
		want string
	}{
		{"nothing is configured", Config{}, ""},
		{"a limiter for each class", Config{PerClass: Auto}, "GET /x"},
		{"a rule only", Config{Rules: []Rule{rule}}, ""},
		{"a limiter for all", Config{Limiter: new(testrig.Limiter)}, ""},
		{"a rule and a limiter for each class", Config{Rules: []Rule{rule}, PerClass: Auto}, "GET /x"},
		{"classes of one's own", Config{Rules: []Rule{rule}, Class: byURL}, "/x"},
		{"classes of one's own, one limiter", Config{Limiter: new(testrig.Limiter), Class: byURL}, "/x"},
	} {
		m := middleware(t, tt.cfg)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /x", nothing)
		(&site{Middleware: m, t: t, handler: m.Handler(mux)}).get(200, "/x")
		if c := m.Stats().Classes; len(c) != 1 || c[0].Class != tt.want {
			t.Errorf("%s: %+v: want class %q", tt.rule, c, tt.want)
		}
	}
}

func TestALimiterIsMadeOnceForEachClass(t *testing.T) {
	var g register
	s := newSite(t, Config{
		PerClass: g.limiter,
		Class:    func(r *http.Request) string { return r.URL.Path },
	}, nil)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for n := range 500 {
				s.do(testrig.Request("GET", fmt.Sprintf("/%d", n%5)))
			}
		})
	}
	all.Wait()
	g.are(t, "/0", "/1", "/2", "/3", "/4")
	for n := range 5 {
		if c := s.counts(fmt.Sprintf("/%d", n)); c.admitted != 1600 {
			t.Errorf("class %d: %+v", n, c)
		}
	}
}

// There are at most 1000 classes, and one for all others.
func TestClassesAreBounded(t *testing.T) {
	for _, early := range []bool{false, true} {
		var g register
		s := newSite(t, Config{
			PerClass: g.limiter,
			Class:    func(r *http.Request) string { return r.Header.Get("Class") },
		}, nil)
		own := admission.MaxClasses // classes that are not shared
		want := map[string]uint64{admission.Others: 100}
		if early { // a client that knows the name of the last class takes it
			s.get(200, "/", "Class: "+admission.Others)
			own--
			want[admission.Others] += 2
		}
		for n := range admission.MaxClasses + 100 {
			s.get(200, "/", fmt.Sprint("Class: ", n))
			if n < own {
				want[fmt.Sprint(n)] = 1
			}
		}
		s.get(200, "/", "Class: 1")
		want["1"]++
		got := map[string]uint64{}
		for _, c := range s.Stats().Classes {
			got[c.Class] = c.Admitted
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: want %v", got, want)
		}
		var names []string
		for name := range want {
			names = append(names, name)
		}
		g.are(t, names...)
	}
}

func TestHugeNamesOfClasses(t *testing.T) {
	var g register
	s := newSite(t, Config{PerClass: g.limiter, Class: func(r *http.Request) string { return r.Header.Get("Class") }}, nil)
	huge := strings.Repeat("\xff\x00", 1<<20)
	r := testrig.Request("GET", "/")
	r.Header.Set("Class", huge)
	s.do(r)
	r.Header.Set("Class", huge+"!")
	s.do(r)
	g.are(t, huge, huge+"!")
}

func TestUnits(t *testing.T) {
	v := new(testrig.Limiter)
	s := newSite(t, Config{Limiter: v, Units: byHeader}, func(_ http.ResponseWriter, r *http.Request) {
		v.WantHeld(t, byHeader(r), "in the handler")
	})
	for _, n := range []string{"1", "3", "0"} {
		s.get(200, "/", "Cost: "+n)
	}
	s.ran(3)
	v.WantHeld(t, 0, "at the end")
}

// A class that has no limiter is limited by nothing, but counted.
func TestAClassWithoutALimiter(t *testing.T) {
	s := newSite(t, Config{PerClass: func(string) weir.Limiter { return nil }}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s.get(503, "/")
	if n := s.counts(""); n.admitted != 1 || n.outcomes[weir.Dropped] != 1 {
		t.Errorf("%+v", n)
	}
}
