package httpclient

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		rule, value, date string
		want              time.Duration
		ok                bool
	}{
		{"seconds", "120", "", 2 * time.Minute, true},
		{"zero is no wait", "0", "", 0, true},
		{"blanks around it", " 5\t", "", 5 * time.Second, true},
		{"seconds beyond all numbers", strings.Repeat("9", 40), "", pacing.Forever, true},
		{"a date, by our clock", "Fri, 02 Jan 2026 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date, by the clock of who sent it", "Fri, 02 Jan 2026 03:04:35 GMT", "Fri, 02 Jan 2026 03:04:25 GMT", 10 * time.Second, true},
		{"a date by a clock that is ahead of ours", "Fri, 02 Jan 2026 05:00:10 GMT", "Fri, 02 Jan 2026 05:00:00 GMT", 10 * time.Second, true},
		{"a date beside one that is no date", "Fri, 02 Jan 2026 03:04:35 GMT", "now", 30 * time.Second, true},
		{"a date in the past is no wait", "Fri, 02 Jan 2026 03:00:00 GMT", "", 0, true},
		{"a date in a far century", "Fri, 02 Jan 2986 03:00:00 GMT", "", pacing.Forever, true},
		{"a date of RFC 850", "Friday, 02-Jan-26 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date of asctime", "Fri Jan  2 03:04:35 2026", "", 30 * time.Second, true},
		{"a fraction", "1.5", "", 0, false},
		{"a sign", "-1", "", 0, false},
		{"a unit", "5s", "", 0, false},
		{"nothing", "", "", 0, false},
	} {
		h := http.Header{"Retry-After": {test.value}}
		if test.date != "" {
			h.Set("Date", test.date)
		}
		if got, ok := parseRetryAfter(h, now); got != test.want || ok != test.ok {
			t.Errorf("%s: %v, %v: want %v, %v", test.rule, got, ok, test.want, test.ok)
		}
	}
	if _, ok := parseRetryAfter(http.Header{}, now); ok {
		t.Error("there is no Retry-After, and one was found")
	}
	if _, ok := parseRetryAfter(http.Header{"Retry-After": {"1", "2"}}, now); ok {
		t.Error("two of them: which one binds is not known, and one was heeded")
	}
}

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
		wait, ok := parseRetryAfter(http.Header{"Retry-After": {after}}, time.Unix(0, 0))
		if wait < 0 || wait > pacing.Forever || wait > 0 && !ok {
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
