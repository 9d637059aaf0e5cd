package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// Fields show the policies in force, and the cache of policies is bounded.
func TestPoliciesAreThoseInForce(t *testing.T) {
	const each = 100 // rules of a version
	rules := func(first int) *config.Rules {
		r := new(config.Rules)
		for n := first; n < first+each; n++ {
			name := fmt.Sprint("r", n-first)
			r.Rules = append(r.Rules, config.Rule{Name: name, Glob: name, Quota: config.Quota{Rate: config.Rate{Count: n, Period: time.Hour}, Algorithm: config.Fixed}})
		}
		return r
	}
	s, err := server.New(server.Config{Rules: rules(10)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for first := 10; first < maxPolicies+2*each; first += each {
		if err := s.Reload(rules(first)); err != nil {
			t.Fatal(err)
		}
		for i := range 2 * each {
			name := fmt.Sprint("r", i/2)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest("POST", "/rate/"+name+"?n=0", nil))
			if got, want := w.Header().Get("RateLimit-Policy"), fmt.Sprintf(`"%s";q=%d;w=3600`, name, first+i/2); got != want {
				t.Errorf("%s: want %s", got, want)
			}
		}
		kept := 0
		for range a.policies.Range {
			kept++
		}
		if kept > maxPolicies {
			t.Errorf("%d policies are cached", kept)
		}
	}
}

// RateLimit-Policy names one rule, or several. A value does not change with later answers, of which it may share the memory.
func TestFieldsOfRules(t *testing.T) {
	for n, want := range []string{"", `"r0";q=10;w=3600`, `"r0";q=10;w=3600, "r1";q=11;w=3600`, `"r0";q=10;w=3600, "r1";q=11;w=3600, "r2";q=12;w=3600`} {
		rules := &config.Rules{Apply: config.All}
		for i := range n {
			rules.Rules = append(rules.Rules, config.Rule{Name: fmt.Sprint("r", i), Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 10 + i, Period: time.Hour}, Algorithm: config.Fixed}})
		}
		s, err := server.New(server.Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var all [1000]*httptest.ResponseRecorder
		for i := range all {
			all[i] = httptest.NewRecorder()
			a.ServeHTTP(all[i], httptest.NewRequest("POST", "/rate/a", nil))
		}
		for i, w := range all {
			if got := w.Header().Get("Ratelimit-Policy"); i < 10 && got != want || i >= 10 && !strings.HasPrefix(want, got) {
				t.Errorf("%d rules, request %d: %s: want %s", n, i, got, want)
			}
			if got, left := w.Header().Get("Ratelimit"), fmt.Sprintf(`"r0";r=%d;`, max(9-i, 0)); n > 0 && !strings.HasPrefix(got, left) {
				t.Errorf("%d rules, request %d: %s: want %s", n, i, got, left)
			}
		}
	}
}
