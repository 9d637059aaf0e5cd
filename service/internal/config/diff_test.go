package config_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
)

func TestDiff(t *testing.T) {
	parse := func(text string) *config.Rules {
		name := "rules.yaml"
		if strings.HasPrefix(text, "{") {
			name = "gocc.json"
		}
		r, err := config.Parse(name, []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return r
	}
	const a, b, c = "{key: a, rate: 5/m}", "{key: b, rate: 5/m}", "{key: c, rate: 5/m}"
	for _, tt := range []struct{ rule, old, new, want string }{
		{"nothing at all", "rules: []", "rules: []", "no rules"},
		{"no change", "rules: [" + a + "," + b + "]", "rules: [" + a + "," + b + "]", "2 as before"},
		{"a default that is written out", "rules: [" + a + "]",
			"rules: [{key: a, rate: 5/60s, burst: 5, algorithm: gcra, per: key, mode: enforce, queue: 100, max_debt: 5, max_wait: 1h, unassigned: ask}]", "1 as before"},
		{"how to decide without others", "rules: [{name: a, key: a, rate: 5/m}]", "rules: [{name: a, key: a, rate: 5/m, away: deny, unassigned: share}]",
			"1 changed (a: away none → deny, unassigned ask → share)"},
		{"a zone", "rules: [{name: a, key: a, rate: 5/d, algorithm: calendar}]", "rules: [{name: a, key: a, rate: 5/d, algorithm: calendar, zone: Asia/Tokyo}]",
			"1 changed (a: zone UTC → Asia/Tokyo)"},
		{"the default zone", "rules: [{name: a, key: a, rate: 5/d, algorithm: calendar}]", "rules: [{name: a, key: a, rate: 5/d, algorithm: calendar, zone: UTC}]", "1 as before"},
		{"of concurrency too", "rules: [{key: a, concurrency: {}}]",
			"rules: [{key: a, concurrency: {limit: auto, min: 1, max: 1000, ttl: 30s, max_ttl: 5m, queue: 100}}]", "1 as before"},
		{"added and removed", "rules: [" + a + "," + b + "]", "rules: [" + a + "," + c + ", {key: d, rate: 1/s}]", "2 added, 1 removed, 1 as before"},
		{"what follows from the rate is no change of its own", "rules: [{name: logins, key: a, rate: 5/m}, " + b + "]", "rules: [{name: logins, key: a, rate: 10/m}, " + b + "]",
			"1 changed (logins: rate 5/m → 10/m), 1 as before"},
		{"a few fields are told", "rules: [{name: a, key: x, rate: 5/m}]",
			"rules: [{name: a, key: y, rate: 5/m, burst: 7, algorithm: gcra, queue: 0, mode: shadow, max_debt: 1}]",
			`1 changed (a: burst the rate's count → 7, pattern key "x" → key "y", queue 100 → 0, ...)`},
		{"entries", `rules: [{name: a, entries: {b: "1", a: "*"}, rate: 1/s}, {name: b, domain: "*", entries: {a: b}, rate: 1/s}]`,
			`rules: [{name: a, domain: edge, entries: {a: "*", b: "2"}, rate: 1/s}, {name: b, entries: {a: b}, rate: 1/s}]`,
			`1 changed (a: pattern entries "*|a=*|b=1" → entries "edge|a=*|b=2"), 1 as before`},
		{"a few rules are told", "rules: [{name: a, key: a, rate: 1/s}, {name: b, key: b, rate: 1/s}, {name: c, key: c, rate: 1/s}, {name: d, key: d, rate: 1/s}]",
			"rules: [{name: a, key: a, rate: 2/s}, {name: b, key: b, rate: 2/s}, {name: c, key: c, rate: 2/s}, {name: d, key: d, rate: 2/s}]",
			"4 changed (a: rate 1/s → 2/s; b: rate 1/s → 2/s; c: rate 1/s → 2/s; ...)"},
		{"what comes and goes", "rules: [{name: a, key: a, rate: 1/s, candidate: {rate: 1/s}}]", "rules: [{name: a, key: a, concurrency: {limit: 5}}]",
			"1 changed (a: rate 1/s → none, concurrency none → 5, candidate rate 1/s → none)"},
		{"another order", "rules: [" + a + "," + b + "," + c + "]", "rules: [" + b + "," + a + ", {key: d, rate: 1/s}]", "1 added, 1 removed, 2 as before, in another order"},
		{"all at once", "rules: [" + a + "," + b + ", {name: x, key: x, rate: 1/s}]", "rules: [" + c + "," + a + ", {name: x, key: x, rate: 2/s}]",
			"1 added, 1 removed, 1 changed (x: rate 1/s → 2/s), 1 as before"},
		{"beside the rules", "rules: []", "apply: all\nunmatched: deny\nrules: []", "apply first → all, unmatched allow → deny"},
		{"GoCC's", `{"keys": [{"key_pattern": "a", "max_requests_in_queue": 400}, {"key_pattern": "b", "window_millis": 10}]}`,
			`{"keys": [{"key_pattern": "a"}, {"key_pattern": "b", "max_requests_per_window": 5}]}`,
			"2 changed (a: queue 400 → none; b: count none → 5, period 10ms → none), 1 as before"},
		{"to GoCC's", "rules: [{name: default, glob: '*', rate: 100/s, queue: 400}]", `{"keys": []}`, "1 changed (default: algorithm gcra → fixed, max_wait 1h0m0s → 24h0m0s), merge false → true"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if got := config.Diff(parse(tt.old), parse(tt.new)); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// A line for the log is a line, however long the rules are.
func TestDiffIsBounded(t *testing.T) {
	var old, new config.Rules
	for i := range 1000 {
		name := strings.Repeat("n", 57) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		long := strings.Repeat("\n\"", 2000)
		old.Rules = append(old.Rules, config.Rule{Name: name, Key: long})
		new.Rules = append(new.Rules, config.Rule{Name: name, Glob: long, Queue: ptr(1), Mode: config.Off})
	}
	if line := config.Diff(&old, &new); len(line) > 1200 || strings.Contains(line, "\n") {
		t.Errorf("%d bytes: %q", len(line), line)
	}
}
