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
		{"remaining and reset", []string{`"default";r=50;t=30`}, []ServiceLimit{{"default", "", 0, 50, 30 * time.Second}}},
		{"a reset may be missing", []string{`"default";r=999`}, []ServiceLimit{{"default", "", 0, 999, -1}}},
		{"a partition key is bytes", []string{`"peruser";r=0;t=1;pk=:YWJj:`}, []ServiceLimit{{"peruser", "abc", 0, 0, time.Second}}},
		{"several items", []string{`"a";r=1;t=2, "b";r=3;t=4`}, []ServiceLimit{{"a", "", 0, 1, 2 * time.Second}, {"b", "", 0, 3, 4 * time.Second}}},
		{"several lines", []string{`"a";r=1;t=2`, `"b";r=3;t=4`}, []ServiceLimit{{"a", "", 0, 1, 2 * time.Second}, {"b", "", 0, 3, 4 * time.Second}}},
		{"other parameters are comments", []string{`"a";acme-burst=7.5;r=1;x;t=2`}, []ServiceLimit{{"a", "", 0, 1, 2 * time.Second}}},
		{"a reset beyond a lifetime is one", []string{`"a";r=0;t=999999999999999`}, []ServiceLimit{{"a", "", 0, 0, maxWait}}},
		{"the names of a later draft", []string{`"a";a=50;w=30`}, []ServiceLimit{{"a", "", 0, 50, 30 * time.Second}}},
		{"its time may be missing", []string{`"a";a=50`}, []ServiceLimit{{"a", "", 0, 50, -1}}},
		{"of both names the stricter value", []string{`"a";a=50;w=30;r=40;t=20`, `"b";r=50;a=40;t=30;w=20`}, []ServiceLimit{{"a", "", 0, 40, 30 * time.Second}, {"b", "", 0, 40, 30 * time.Second}}},
		{"a window beside r is a comment", []string{`"a";r=50;t=30;w=60`}, []ServiceLimit{{"a", "", 0, 50, 30 * time.Second}}},
		{"a time beside a is a comment", []string{`"a";a=50;w=30;t=60`}, []ServiceLimit{{"a", "", 0, 50, 30 * time.Second}}},
		{"sixteen items", []string{strings.Repeat(`"a";r=1,`, 15) + `"a";r=1`}, slicesOf(16, ServiceLimit{"a", "", 0, 1, -1})},
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
	{"available that is below zero", `"default";r=5;a=-1`},
	{"a window of text", `"default";a=5;w="x"`},
	{"a window without what is available", `"default";w=5`},
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

// Fields of earlier drafts say the same.
func TestEarlierDrafts(t *testing.T) {
	date := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		rule string
		h    map[string][]string
		want []ServiceLimit
	}{
		{"draft-07", map[string][]string{"Ratelimit": {"limit=100, remaining=50, reset=30"}}, []ServiceLimit{{"", "", 100, 50, 30 * time.Second}}},
		{"draft-07 on several lines", map[string][]string{"Ratelimit": {"limit=100", "remaining=50;x=1"}}, []ServiceLimit{{"", "", 100, 50, -1}}},
		{"draft-07 without what remains", map[string][]string{"Ratelimit": {"limit=100, reset=30"}}, nil},
		{"draft-07 that is malformed", map[string][]string{"Ratelimit": {"limit=100, remaining=50,"}}, nil},
		{"draft-03", map[string][]string{"Ratelimit-Limit": {"100, 100;w=60"}, "Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"5"}}, []ServiceLimit{{"", "", 100, 0, 5 * time.Second}}},
		{"without a reset", map[string][]string{"Ratelimit-Limit": {"100;w=21600"}, "Ratelimit-Remaining": {"76;w=21600"}}, []ServiceLimit{{"", "", 100, 76, -1}}},
		{"without a limit", map[string][]string{"Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"5"}}, []ServiceLimit{{"", "", 0, 1, 5 * time.Second}}},
		{"without what remains", map[string][]string{"Ratelimit-Limit": {"100"}, "Ratelimit-Reset": {"5"}}, nil},
		{"fractions, to the strict side", map[string][]string{"Ratelimit-Remaining": {"1.9"}, "Ratelimit-Reset": {"4.2"}}, []ServiceLimit{{"", "", 0, 1, 5 * time.Second}}},
		{"a time since 1970", map[string][]string{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"1800000007"}}, []ServiceLimit{{"", "", 0, 0, 7 * time.Second}}},
		{"one that is over", map[string][]string{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"1700000000"}}, []ServiceLimit{{"", "", 0, 0, 0}}},
		{"of several the strictest", map[string][]string{"Ratelimit-Remaining": {"5", "3"}, "Ratelimit-Reset": {"7, 9"}}, []ServiceLimit{{"", "", 0, 3, 9 * time.Second}}},
		{"one of several malformed", map[string][]string{"Ratelimit-Remaining": {"5", "x"}, "Ratelimit-Reset": {"7"}}, nil},
		{"below zero", map[string][]string{"Ratelimit-Remaining": {"-1"}, "Ratelimit-Reset": {"7"}}, nil},
		{"a reset that is a date", map[string][]string{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"Fri, 02 Jan 2026 03:04:35 GMT"}}, []ServiceLimit{{"", "", 0, 0, -1}}},
		{"the newest form is first", map[string][]string{"Ratelimit": {`"a";r=1;t=2`}, "Ratelimit-Remaining": {"0"}}, []ServiceLimit{{"a", "", 0, 1, 2 * time.Second}}},
		{"a malformed one is as none", map[string][]string{"Ratelimit": {`"a"`}, "Ratelimit-Remaining": {"0"}}, []ServiceLimit{{"", "", 0, 0, -1}}},
		{"too long", map[string][]string{"Ratelimit": {"remaining=5, x=" + strings.Repeat("1", maxField)}}, nil},
		{"none", nil, nil},
	} {
		if got := Limits(test.h, func() time.Time { return date }); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v: want %+v", test.rule, got, test.want)
		}
	}
	for _, test := range []struct {
		rule string
		h    map[string][]string
		want []QuotaPolicy
	}{
		{"since draft-04", map[string][]string{"Ratelimit-Policy": {`10;w=1, 50;w=60;comment="x"`}, "Ratelimit-Limit": {"10"}}, []QuotaPolicy{{"", "requests", 10, time.Second}, {"", "requests", 50, time.Minute}}},
		{"until draft-03", map[string][]string{"Ratelimit-Limit": {"10, 10;w=1, 50;w=60"}}, []QuotaPolicy{{"", "requests", 10, time.Second}, {"", "requests", 50, time.Minute}}},
		{"a limit alone", map[string][]string{"Ratelimit-Limit": {"10"}}, nil},
		{"a window of zero", map[string][]string{"Ratelimit-Policy": {"10;w=0"}}, nil},
		{"below zero", map[string][]string{"Ratelimit-Policy": {"-1;w=1"}}, nil},
	} {
		if got := ParsePolicies(PolicyLines(test.h)); len(got)+len(test.want) > 0 && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v: want %+v", test.rule, got, test.want)
		}
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
			if l.Remaining < 0 || l.Reset > maxWait || l.Reset < -1 {
				t.Fatalf("%+v", l)
			}
		}
		for _, p := range ParsePolicies([]string{policy}) {
			if p.Quota < 0 || p.Window < 0 || p.Window > maxWait {
				t.Fatalf("%+v", p)
			}
		}
	})
}
