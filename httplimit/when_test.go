package httplimit

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/testrig"
)

// A rule takes tokens of the requests to which it applies, and of no others. It keeps its
// place among the rules.
func TestWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		posts, all := allow(t, "posts", 2), allow(t, "all", 5)
		s := newSite(t, Config{Fields: FieldsDraft | FieldsDelta, Rules: []Rule{
			posts.When(func(r *http.Request) bool { return r.Method == http.MethodPost }),
			all.Rule,
		}}, func(w http.ResponseWriter, r *http.Request) {
			if n := len(r.Header.Get("Cost")); n > 0 {
				Use(w, n)
			}
		})
		fields := func(h http.Header) string { return h.Get("RateLimit") + " | " + h.Get("X-RateLimit-Limit") }
		get := s.get(200, "/", "X-Client: ada", "Cost: II")
		if got := fields(get.Header()); strings.Contains(got, "posts") || !strings.HasSuffix(got, "| 5") {
			t.Errorf("GET tells %s: want no more than the rule all", got)
		}
		posts.left(t, "ada", 2, "after a GET")
		all.left(t, "ada", 3, "after a GET that cost two")

		post := s.do(testrig.Request("POST", "/", "X-Client: ada", "Cost: II"))
		if got := fields(post.Header()); !strings.Contains(got, `"posts";r=1`) || !strings.HasSuffix(got, "| 2") {
			t.Errorf("POST tells %s: want both rules, and the least left", got)
		}
		posts.left(t, "ada", 0, "after a POST that cost two")

		if w := s.do(testrig.Request("POST", "/", "X-Client: ada")); w.Code != 429 || !strings.Contains(w.Body.String(), "posts") {
			t.Errorf("POST: %d, %s: want 429 by the rule posts", w.Code, w.Body)
		}
		all.left(t, "ada", 1, "after a POST was denied")
		s.get(200, "/", "X-Client: ada")
		if w := s.get(429, "/", "X-Client: ada"); !strings.Contains(w.Body.String(), `"all"`) {
			t.Errorf("GET: %s: want it denied by the rule all", w.Body)
		}
		if st := s.Stats().Rules; st[0].Allowed != 1 || st[0].Denied != 1 || st[1].Allowed != 3 || st[1].Denied != 1 {
			t.Errorf("counts %+v", st)
		}
	})
}
