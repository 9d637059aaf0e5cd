package ratelimitfield

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRateLimitFieldIsParsed(t *testing.T) {
	for _, test := range []struct {
		rule  string
		lines []string
		want  []ServiceLimit
	}{
		{"remaining and reset", []string{`"default";r=50;t=30`}, []ServiceLimit{{"default", "", 50, 30 * time.Second}}},
		{"a reset may be missing", []string{`"default";r=999`}, []ServiceLimit{{"default", "", 999, -1}}},
		{"a partition key is bytes", []string{`"peruser";r=0;t=1;pk=:YWJj:`}, []ServiceLimit{{"peruser", "abc", 0, time.Second}}},
		{"several items", []string{`"a";r=1;t=2, "b";r=3;t=4`}, []ServiceLimit{{"a", "", 1, 2 * time.Second}, {"b", "", 3, 4 * time.Second}}},
		{"several lines", []string{`"a";r=1;t=2`, `"b";r=3;t=4`}, []ServiceLimit{{"a", "", 1, 2 * time.Second}, {"b", "", 3, 4 * time.Second}}},
		{"other parameters are comments", []string{`"a";acme-burst=7.5;r=1;x;t=2`}, []ServiceLimit{{"a", "", 1, 2 * time.Second}}},
		{"a reset beyond a lifetime is one", []string{`"a";r=0;t=999999999999999`}, []ServiceLimit{{"a", "", 0, forever}}},
		{"sixteen items", []string{strings.Repeat(`"a";r=1,`, 15) + `"a";r=1`}, slicesOf(16, ServiceLimit{"a", "", 1, -1})},
	} {
		if got := ParseLimits(test.lines); !reflect.DeepEqual(got, test.want) {
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

// malformed lists fields that clients must ignore.
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
}

func TestRateLimitFieldThatIsMalformedIsIgnored(t *testing.T) {
	for _, test := range malformed {
		if got := ParseLimits([]string{test.line}); len(got) != 0 {
			t.Errorf("%s: %+v: want nothing", test.rule, got)
		}
	}
	if got := ParseLimits(slicesOf(17, "")); len(got) != 0 {
		t.Errorf("17 empty lines: %+v", got)
	}
}

func TestRateLimitPolicyIsParsed(t *testing.T) {
	for _, test := range []struct {
		rule, line string
		want       []QuotaPolicy
	}{
		{"quota and window", `"burst";q=100;w=60,"daily";q=1000;w=86400`,
			[]QuotaPolicy{{"burst", "requests", 100, time.Minute}, {"daily", "requests", 1000, 24 * time.Hour}}},
		{"a window may be missing", `"a";q=1`, []QuotaPolicy{{"a", "requests", 1, 0}}},
		{"a unit", `"a";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUHw=:`, []QuotaPolicy{{"a", "content-bytes", 65535, 10 * time.Second}}},
		{"no quota", `"a";w=10`, nil},
		{"a quota below zero", `"a";q=-1;w=10`, nil},
		{"a window of zero", `"a";q=1;w=0`, nil},
		{"a window of text", `"a";q=1;w="1"`, nil},
		{"a unit that is a token", `"a";q=1;qu=requests`, nil},
		{"a partition key of text", `"a";q=1;pk="x"`, nil},
		{"a token for a name", `a;q=1`, nil},
	} {
		if got := ParsePolicies([]string{test.line}); !(len(got) == 0 && test.want == nil) && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v: want %+v", test.rule, got, test.want)
		}
	}
}

// Whatever a server sends, nothing panics, and what is parsed is within bounds.
func FuzzParse(f *testing.F) {
	for _, m := range malformed {
		f.Add(m.line, `"default";q=1;w=1`)
	}
	f.Add(`"default";r=0;t=30`, `"default";q=100;w=60;qu="content-bytes"`)
	f.Fuzz(func(t *testing.T, limit, policy string) {
		for _, l := range ParseLimits([]string{limit}) {
			if l.Remaining < 0 || l.Reset > forever || l.Reset < -1 {
				t.Fatalf("%+v", l)
			}
		}
		for _, p := range ParsePolicies([]string{policy}) {
			if p.Quota < 0 || p.Window < 0 || p.Window > forever {
				t.Fatalf("%+v", p)
			}
		}
	})
}
