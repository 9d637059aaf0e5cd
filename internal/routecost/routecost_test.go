package routecost

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// A story adds requests, one every millisecond, and collects the dear routes.
type story struct {
	Table
	now  time.Duration
	dear []string
}

func (s *story) add(method, path string, took time.Duration) {
	s.now += time.Millisecond
	if pattern := s.Add(s.now, method, path, took); pattern != "" {
		s.dear = append(s.dear, pattern)
	}
}

func (s *story) want(t *testing.T, dear ...string) {
	t.Helper()
	if !slices.Equal(s.dear, dear) {
		t.Errorf("dear routes %q: want %q", s.dear, dear)
	}
}

func TestDear(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		took map[string]time.Duration
		want []string
	}{
		"one route":              {map[string]time.Duration{"/a": 50 * ms}, nil},
		"alike":                  {map[string]time.Duration{"/a": 50 * ms, "/b": 60 * ms, "/c": 30 * ms}, nil},
		"four times as long":     {map[string]time.Duration{"/a": 50 * ms, "/b": 200 * ms}, nil},
		"a long poll":            {map[string]time.Duration{"/a": 20 * ms, "/poll": 3000 * ms}, []string{"GET /poll"}},
		"a dear one":             {map[string]time.Duration{"/a": 50 * ms, "/b": 500 * ms}, []string{"GET /b"}},
		"the dearest first":      {map[string]time.Duration{"/a": ms, "/b": 40 * ms, "/c": 200 * ms}, []string{"GET /c", "GET /b"}},
		"identifiers":            {map[string]time.Duration{"/a": ms, "/users/@": 40 * ms}, []string{"GET /users/{id}"}},
		"two identifiers":        {map[string]time.Duration{"/a": ms, "/users/@/orders/@": 40 * ms}, []string{"GET /users/{id}/orders/{id2}"}},
		"names without digits":   {map[string]time.Duration{"/a": ms, "/users/$": 40 * ms}, []string{"GET /users/{id}"}},
		"a version is no name":   {map[string]time.Duration{"/v1/a": ms, "/v2/a": 40 * ms}, []string{"GET /v2/a"}},
		"the root, and a slash":  {map[string]time.Duration{"/": ms, "/b/": 40 * ms}, []string{"GET /b/{$}"}},
		"the root":               {map[string]time.Duration{"/a": ms, "/": 40 * ms}, []string{"GET /{$}"}},
		"a deep path":            {map[string]time.Duration{"/a": ms, "/1/2/3/4/5/6/7/8/9/0": 40 * ms}, []string{"GET /{id}/{id2}/{id3}/{id4}/{id5}/{id6}/{id7}/{id8}/{rest...}"}},
		"what no pattern can be": {map[string]time.Duration{"/a": ms, "/x//y": 40 * ms, "/x/../y": 40 * ms}, nil},
		"what needs escapes":     {map[string]time.Duration{"/a": ms, "/x{y}": 40 * ms}, []string{"GET /{id}"}},
		"little of the time":     {map[string]time.Duration{"/a": 9 * ms, "/b": 9 * ms, "/c": 9 * ms, "/d": 0, "/rare": 3 * ms}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s story
			for i := range 2000 {
				for path, took := range c.took {
					path = strings.ReplaceAll(path, "@", fmt.Sprint(100+i%500))
					path = strings.ReplaceAll(path, "$", string([]byte{byte('a' + i%26), byte('a' + i/26%26)}))
					s.add("GET", path, took)
				}
			}
			got := slices.Compact(s.dear)
			if len(got) > len(c.want) {
				got = got[:len(c.want)]
			}
			if !slices.Equal(got, c.want) || len(c.want) == 0 && len(s.dear) > 0 {
				t.Errorf("dear routes %q: want %q", s.dear, c.want)
			}
		})
	}
}

// A route that the caller handles apart from then on is dear once.
func TestOnce(t *testing.T) {
	var s story
	for range 1000 {
		s.add("GET", "/a", time.Millisecond)
		if len(s.dear) == 0 {
			s.add("GET", "/b", time.Second)
		}
	}
	s.want(t, "GET /b")
}

// A flood of paths and methods needs no more than a bounded memory, and hides no dear route.
func TestFlood(t *testing.T) {
	var s story
	for i := range 300_000 {
		s.add(fmt.Sprint("M", i%97), fmt.Sprintf("/%x/%x/%x/%x", i%31, i%37, i, i%41), time.Millisecond)
	}
	if s.nodes > maxNodes {
		t.Errorf("%d nodes: want at most %d", s.nodes, maxNodes)
	}
	count := 0
	s.root.visit(func() { count++ })
	if count != s.nodes {
		t.Errorf("%d nodes are counted as %d", count, s.nodes)
	}
	s.dear = nil
	for i := range 100_000 {
		s.add("GET", "/cheap", time.Millisecond)
		if i%4 == 0 {
			s.add("GET", "/dear", 100*time.Millisecond)
		}
	}
	if !slices.Contains(s.dear, "GET /dear") {
		t.Errorf("dear routes after a flood: %q: want GET /dear", s.dear)
	}
}

func (n *node) visit(f func()) {
	for _, c := range n.literal {
		f()
		c.visit(f)
	}
	if n.any != nil {
		f()
		n.any.visit(f)
	}
}

// FuzzPattern adds a path, and expects a pattern that an http.ServeMux takes, and finds it by.
func FuzzPattern(f *testing.F) {
	for _, path := range []string{"/", "/a/b", "/a/", "/users/4711/orders", "/a%2Fb/c", "/{x}", "/x//y", "/./y", "/ä/%00", "/1/2/3/4/5/6/7/8/9/10"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/") {
			return
		}
		var s story
		for range 300 {
			s.add("GET", path, time.Second)
			s.add("POST", "/", time.Millisecond)
		}
		for _, pattern := range s.dear {
			var mux http.ServeMux
			mux.Handle(pattern, http.NotFoundHandler())
			r := httptest.NewRequest("GET", "/", nil)
			r.URL.Path = path
			if _, found := mux.Handler(r); found != pattern {
				t.Errorf("%q has the pattern %q, and is found by %q", path, pattern, found)
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	paths := []string{"/cheap", "/users/4711/orders", "/v1/items", "/"}
	var t Table
	epoch := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			t.Add(time.Since(epoch), "GET", paths[i%len(paths)], time.Millisecond)
		}
	})
}
