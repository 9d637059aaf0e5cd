package httpapi

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// Fields show the policies in force, and the cache of policies is bounded.
func TestPoliciesAreThoseInForce(t *testing.T) {
	rules := func(n int) *config.Rules {
		return &config.Rules{Rules: []config.Rule{{Name: "r", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: n, Period: time.Hour}, Algorithm: config.Fixed}}}}
	}
	s, err := server.New(server.Config{Rules: rules(10)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 10; n < maxPolicies+20; n++ {
		if err := s.Reload(rules(n)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest("POST", "/rate/a?n=0", nil))
			if got, want := w.Header().Get("RateLimit-Policy"), fmt.Sprintf(`"r";q=%d;w=3600`, n); got != want {
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
