package httpclient

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

func TestResponseWithAnAgeIsFromACache(t *testing.T) {
	for age, want := range map[string]bool{"": false, "0": false, "1": true, "10": true} {
		if got := fromCache(http.Header{"Age": {age}}); got != want {
			t.Errorf("Age %q: %v", age, got)
		}
	}
}

// No field of a server causes a panic, a wait beyond the bounds, or a wait that
// the field does not ask for.
func FuzzRateLimitField(f *testing.F) {
	f.Add(`"default";r=0.5;t=30`, `"default";q=1;w=1`, "1")
	f.Add(`"default";r=0;t=30`, `"default";q=100;w=60;qu="content-bytes"`, "Fri, 02 Jan 2026 03:04:35 GMT")
	f.Fuzz(func(t *testing.T, limit, policy, after string) {
		limits := ratelimitfield.ParseLimits([]string{limit})
		wait, ok := httpheader.RetryAfter(http.Header{"Retry-After": {after}}, time.Unix(0, 0))
		if wait < 0 || wait > pacing.MaxWait || wait > 0 && !ok {
			t.Fatalf("Retry-After %q: %v, %v", after, wait, ok)
		}
		p := pacing.Pacer{MaxHold: time.Hour}
		n := p.Send(0)
		p.Answer(0, &pacing.Answer{Number: n, Overload: true, After: wait, Waits: ok, Limits: limits, Policy: []string{policy}}, 1)
		switch at := p.Next(0); {
		case at > time.Hour+time.Second:
			t.Fatalf("it holds for %v", at)
		case at > 0 && len(limits) == 0 && wait == 0:
			t.Fatalf("nothing that is well formed says so, and it holds for %v", at)
		}
	})
}
