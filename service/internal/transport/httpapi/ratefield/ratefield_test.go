package ratefield

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Fields show the policy of the rule that has answered, also if another had its name before, and the cache of policies is bounded.
func TestPolicies(t *testing.T) {
	var w Writer
	var ps Policies
	for n := range 2*maxPolicies + 10 {
		rule := &decider.RuleRef{Name: "all", Limit: n, Rate: decider.Rate{Count: n, Period: time.Hour}, Algorithm: "fixed"}
		for range 2 {
			h := http.Header{}
			w.Write(h, &ps, ratelimitfield.Draft, &decider.Verdict{OK: true, Answers: []decider.Answer{{Rule: rule, Decision: weir.Decision{OK: true}}}}, 0)
			if got, want := h.Get("RateLimit-Policy"), fmt.Sprintf(`"all";q=%d;w=3600`, n); got != want {
				t.Fatalf("%s: want %s", got, want)
			}
		}
		kept := 0
		if n%1000 == 0 || n == 2*maxPolicies {
			for range ps.all.Range {
				kept++
			}
		}
		if kept > maxPolicies {
			t.Fatalf("%d policies are cached", kept)
		}
	}
}
