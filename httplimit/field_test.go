package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/rate"
)

// A told holds an item of RateLimit-Policy and of RateLimit for a rule.
type told struct {
	name       string
	q, w, r, t int64 // -1: not there
}

// parse reads RateLimit-Policy and RateLimit.
func parse(t *testing.T, h http.Header) (all []told) {
	t.Helper()
	policies := ratelimitfield.ParsePolicies(h.Values("RateLimit-Policy"))
	limits := ratelimitfield.ParseLimits(h.Values("RateLimit"))
	if len(policies) != len(limits) || len(policies) == 0 && h.Get("RateLimit-Policy")+h.Get("RateLimit") != "" {
		t.Fatalf("%d policies, %d limits in %v", len(policies), len(limits), h)
	}
	for i, p := range policies {
		l := limits[i]
		if p.Name != l.Name {
			t.Errorf("the policy of %q stands where the limit of %q does", p.Name, l.Name)
		}
		one := told{p.Name, p.Quota, int64(p.Window / time.Second), l.Remaining, int64(l.Reset / time.Second)}
		if p.Window == 0 {
			one.w = -1
		}
		if l.Reset < 0 {
			one.t = -1
		}
		all = append(all, one)
	}
	return all
}

// checkFields checks what must hold in every response, and returns what was
// told.
func checkFields(t *testing.T, h http.Header) []told {
	t.Helper()
	all := parse(t, h)
	for _, one := range all {
		if one.q < 0 || one.w == 0 || one.r < 0 || one.r > one.q || one.t == 0 {
			t.Errorf("%+v: q and r must be there, r <= q, and the times positive", one)
		}
		again, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
		if one.r == 0 && len(all) == 1 && err == nil && again < one.t {
			t.Errorf("Retry-After: %d is before there is more: %+v", again, one)
		}
	}
	return all
}

// Whatever its name and its quota, a rule is told so that others understand it.
func FuzzFields(f *testing.F) {
	f.Add("per-client", 6, int64(time.Minute), 5, 1)
	f.Add(`"\,;=`, 0, int64(time.Hour), 1, 2)
	f.Add(" ", 1, int64(1), 1<<62, 1<<62)
	f.Add("~", 1, int64(1<<62), 1<<40, 1<<30)
	f.Add("never", 5, int64(time.Second), 0, 1)
	f.Add("free", 1, int64(time.Second), 1, 0)
	f.Fuzz(func(t *testing.T, name string, count int, period int64, burst, cost int) {
		if cost < 0 {
			return
		}
		lim := rate.New(gcra.Per(count, time.Duration(period), burst), rate.Config{})
		rule := httplimit.Overall(name, lim).Cost(func(*http.Request) int { return cost })
		m, err := httplimit.New(httplimit.Config{Rules: []httplimit.Rule{rule}})
		if err != nil {
			return // names that headers cannot carry
		}
		q := lim.Quota()
		h := m.Handler(http.NotFoundHandler())
		for range 3 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			all := checkFields(t, w.Header())
			switch {
			case q == gcra.Unlimited() && len(all) == 0:
			case len(all) != 1 || all[0].name != name:
				t.Errorf("%q: %+v", name, all)
			}
		}
	})
}

// Refused clients are told waits that are spread over the jitter.
func TestRetryJitterIsWithinItsRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := form{handler: with(httplimit.Config{RetryJitter: 30 * time.Second}, perClient)}
		h := f.handler(t)
		for range 5 {
			f.ask(h)
		}
		seen := map[int]bool{}
		for range 500 {
			resp := f.ask(h)
			again, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			if err != nil || again < 10 || again > 40 {
				t.Fatalf("Retry-After: %q: want 10 to 40 s", resp.Header.Get("Retry-After"))
			}
			seen[again] = true
			if told := checkFields(t, resp.Header); told[0].t != 10 {
				t.Errorf("%+v: want t=10, without jitter", told)
			}
		}
		if len(seen) < 20 {
			t.Errorf("500 answers say only %d different times", len(seen))
		}
	})
}
