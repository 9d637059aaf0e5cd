package httplimit

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRateLimitFieldIsParsed(t *testing.T) {
	for _, test := range []struct {
		rule  string
		lines []string
		want  []serviceLimit
	}{
		{"remaining and reset", []string{`"default";r=50;t=30`}, []serviceLimit{{"default", "", 50, 30 * time.Second}}},
		{"a reset may be missing", []string{`"default";r=999`}, []serviceLimit{{"default", "", 999, -1}}},
		{"a partition key is bytes", []string{`"peruser";r=0;t=1;pk=:YWJj:`}, []serviceLimit{{"peruser", "abc", 0, time.Second}}},
		{"several items", []string{`"a";r=1;t=2, "b";r=3;t=4`}, []serviceLimit{{"a", "", 1, 2 * time.Second}, {"b", "", 3, 4 * time.Second}}},
		{"several lines", []string{`"a";r=1;t=2`, `"b";r=3;t=4`}, []serviceLimit{{"a", "", 1, 2 * time.Second}, {"b", "", 3, 4 * time.Second}}},
		{"other parameters are comments", []string{`"a";acme-burst=7.5;r=1;x;t=2`}, []serviceLimit{{"a", "", 1, 2 * time.Second}}},
		{"a reset beyond a lifetime is one", []string{`"a";r=0;t=999999999999999`}, []serviceLimit{{"a", "", 0, forever}}},
		{"sixteen items", []string{strings.Repeat(`"a";r=1,`, 15) + `"a";r=1`}, slicesOf(16, serviceLimit{"a", "", 1, -1})},
	} {
		if got := parseRateLimit(test.lines); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v: want %+v", test.rule, got, test.want)
		}
	}
}

func slicesOf[T any](n int, v T) (s []T) {
	for range n {
		s = append(s, v)
	}
	return s
}

// malformed is what no client may heed.
var malformed = []struct{ rule, line string }{
	{"nothing", ``},
	{"no structured field", `!`},
	{"the form of draft 7", `limit=100, remaining=0, reset=50`},
	{"a token for a name", `default;r=0;t=30`},
	{"a number for a name", `5;r=0;t=30`},
	{"no remaining", `"default";t=30`},
	{"a negative remaining", `"default";r=-1;t=30`},
	{"a fraction remaining", `"default";r=0.5;t=30`},
	{"a text remaining", `"default";r="0";t=30`},
	{"a negative reset", `"default";r=0;t=-30`},
	{"a fraction for a reset", `"default";r=0;t=1.5`},
	{"a flag for a reset", `"default";r=0;t`},
	{"a date for a reset", `"default";r=0;t=@1659578233`},
	{"a number too large", `"default";r=0;t=9999999999999999`},
	{"a text for a partition key", `"default";r=0;t=30;pk="abc"`},
	{"an inner list", `("default");r=0;t=30`},
	{"a good item before a bad one", `"default";r=0;t=30, "other"`},
	{"an end that is missing", `"default";r=0;t=30,`},
	{"a quote that is missing", `"default;r=0;t=30`},
	{"a character beyond ASCII", `"défaut";r=0;t=30`},
	{"more than 4 kB", `"` + strings.Repeat("a", maxField) + `";r=0;t=30`},
	{"more than 16 items", strings.Repeat(`"a";r=0;t=30,`, 16) + `"a";r=0;t=30`},
}

func TestRateLimitFieldThatIsMalformedIsIgnored(t *testing.T) {
	for _, test := range malformed {
		if got := parseRateLimit([]string{test.line}); len(got) != 0 {
			t.Errorf("%s: %+v: want nothing", test.rule, got)
		}
	}
	if got := parseRateLimit(slicesOf(17, "")); len(got) != 0 {
		t.Errorf("17 lines: %+v", got)
	}
}

func TestRateLimitPolicyIsParsed(t *testing.T) {
	for _, test := range []struct {
		rule, line string
		want       []quotaPolicy
	}{
		{"quota and window", `"burst";q=100;w=60,"daily";q=1000;w=86400`,
			[]quotaPolicy{{"burst", "requests", 100, time.Minute}, {"daily", "requests", 1000, 24 * time.Hour}}},
		{"a window may be missing", `"a";q=1`, []quotaPolicy{{"a", "requests", 1, 0}}},
		{"a unit", `"a";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUHw=:`, []quotaPolicy{{"a", "content-bytes", 65535, 10 * time.Second}}},
		{"no quota", `"a";w=10`, nil},
		{"a quota below zero", `"a";q=-1;w=10`, nil},
		{"a window of zero", `"a";q=1;w=0`, nil},
		{"a window of text", `"a";q=1;w="1"`, nil},
		{"a unit that is a token", `"a";q=1;qu=requests`, nil},
		{"a partition key of text", `"a";q=1;pk="x"`, nil},
		{"a token for a name", `a;q=1`, nil},
	} {
		if got := parsePolicies([]string{test.line}); !(len(got) == 0 && test.want == nil) && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v: want %+v", test.rule, got, test.want)
		}
	}
}

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
		{"seconds beyond all numbers", strings.Repeat("9", 40), "", forever, true},
		{"a date, by our clock", "Fri, 02 Jan 2026 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date, by the clock of who sent it", "Fri, 02 Jan 2026 03:04:35 GMT", "Fri, 02 Jan 2026 03:04:25 GMT", 10 * time.Second, true},
		{"a date by a clock that is ahead of ours", "Fri, 02 Jan 2026 05:00:10 GMT", "Fri, 02 Jan 2026 05:00:00 GMT", 10 * time.Second, true},
		{"a date beside one that is no date", "Fri, 02 Jan 2026 03:04:35 GMT", "now", 30 * time.Second, true},
		{"a date in the past is no wait", "Fri, 02 Jan 2026 03:00:00 GMT", "", 0, true},
		{"a date in a far century", "Fri, 02 Jan 2986 03:00:00 GMT", "", forever, true},
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

// Whatever a server sends, nothing panics, what is heeded is within bounds, and
// what is not heeded holds nobody.
func FuzzRateLimitField(f *testing.F) {
	for _, m := range malformed {
		f.Add(m.line, `"default";q=1;w=1`, "1")
	}
	f.Add(`"default";r=0;t=30`, `"default";q=100;w=60;qu="content-bytes"`, "Fri, 02 Jan 2026 03:04:35 GMT")
	f.Fuzz(func(t *testing.T, limit, policy, after string) {
		limits, rules := parseRateLimit([]string{limit}), parsePolicies([]string{policy})
		if len(limits) > maxItems || len(rules) > maxItems {
			t.Fatalf("%d limits, %d rules", len(limits), len(rules))
		}
		for _, l := range limits {
			if l.remaining < 0 || l.reset > forever || l.reset < -1 {
				t.Fatalf("%+v", l)
			}
		}
		for _, r := range rules {
			if r.quota < 0 || r.window < 0 || r.window > forever {
				t.Fatalf("%+v", r)
			}
		}
		wait, ok := parseRetryAfter(http.Header{"Retry-After": {after}}, time.Unix(0, 0))
		if wait < 0 || wait > forever || wait > 0 && !ok {
			t.Fatalf("Retry-After %q: %v, %v", after, wait, ok)
		}
		p := pacer{longest: time.Hour}
		n := p.send(0)
		p.hear(0, &answer{number: n, overload: true, after: wait, waits: ok, limits: limits, policy: []string{policy}}, 1)
		switch at := p.turn(0); {
		case at > time.Hour+maxDelay:
			t.Fatalf("it holds for %v", at)
		case at > 0 && len(limits) == 0 && wait == 0:
			t.Fatalf("nothing that is well formed says so, and it holds for %v", at)
		}
	})
}
