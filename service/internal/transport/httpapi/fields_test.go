package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// RateLimit-Policy names one rule, or several. A value does not change with later answers, of which it may share the memory.
func TestFieldsOfRules(t *testing.T) {
	for n, want := range []string{"", `"r0";q=10;w=3600`, `"r0";q=10;w=3600, "r1";q=11;w=3600`, `"r0";q=10;w=3600, "r1";q=11;w=3600, "r2";q=12;w=3600`} {
		rules := &config.Rules{Apply: config.All}
		for i := range n {
			rules.Rules = append(rules.Rules, config.Rule{Name: fmt.Sprint("r", i), Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 10 + i, Period: time.Hour}, Algorithm: config.Fixed}})
		}
		s, err := server.New(server.Config{Rules: rules})
		testrig.Must(t, err)
		a, err := New(s, Config{})
		testrig.Must(t, err)
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
