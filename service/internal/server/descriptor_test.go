package server_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// newLimits returns a Server with the rules of a file of envoyproxy/ratelimit.
func newLimits(t *testing.T, a config.Algorithm, text string) desk {
	t.Helper()
	r, err := config.ParseWith("limits.yaml", []byte(text), config.RateLimitOptions{Algorithm: a})
	if err != nil {
		t.Fatal(err)
	}
	return newDesk(t, server.Config{Rules: r})
}

func (d desk) descriptors(all bool, reqs ...decider.Request) []decider.Verdict {
	d.t.Helper()
	verdicts := make([]decider.Verdict, len(reqs))
	if _, err := d.Server.Descriptors(context.Background(), reqs, all, verdicts); err != nil {
		d.t.Fatal(err)
	}
	return verdicts
}

// The key of a descriptor finds its limit, and counts in its bucket.
func TestDescriptor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newLimits(t, config.GCRA, `
domain: edge
descriptors:
- {key: path, value: /a, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: path, value: "/files/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: path, rate_limit: {unit: hour, requests_per_unit: 3}}
- key: user
  descriptors:
  - {key: dir, value: "/x*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 4}}
- {key: free, rate_limit: {unlimited: true}}
- {key: trial, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
`)
		d.allows("edge|path=/a", 1, 3)
		d.allows("edge|path=/b", 3, 9)
		d.allows("edge|path=/c", 3, 9)
		d.allows("edge|path=/files/a", 1, 1)
		d.allows("edge|path=/files/b", 1, 2)
		d.allows("edge|user=7|dir=/x1", 2, 2)
		d.allows("edge|user=7|dir=/x2", 2, 3)
		d.allows("edge|user=8|dir=/x2", 4, 5)
		d.allows("edge|free=", 9, 9)
		d.allows("edge|trial=", 9, 9)
		d.allows("edge|other=", 9, 9)
		d.allows("edge|path", 9, 9) // no descriptor
		if v := d.ask("edge|path=/b", 1); v.OK || v.Rule.Name != "edge.path" {
			t.Errorf("%+v", v)
		}
		if v := d.ask("edge|free=", 1); v.Rule == nil || !v.Rule.Descriptor.Unlimited || len(v.Answers) > 0 {
			t.Errorf("%+v", v)
		}
		if v := d.ask("edge|other=", 1); v.Rule != nil {
			t.Errorf("%+v", v)
		}
	})
}

// A limit that another descriptor of the same request replaces does not count.
func TestReplaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newLimits(t, config.GCRA, `
domain: edge
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 1, name: small}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: small}]}}
- {key: c, rate_limit: {unlimited: true, replaces: [{name: small}]}}
`)
		a, b, c := decider.Request{Key: "edge|a=", N: 1}, decider.Request{Key: "edge|b=", N: 1}, decider.Request{Key: "edge|c=", N: 1}
		for i, tt := range []struct {
			reqs []decider.Request
			all  bool
			want [2]bool
		}{
			{[]decider.Request{a, b}, false, [2]bool{true, true}},
			{[]decider.Request{a, c}, true, [2]bool{true, true}},
			{[]decider.Request{a, a}, true, [2]bool{false, false}},
			{[]decider.Request{a, a}, false, [2]bool{true, false}},
			{[]decider.Request{a, a}, false, [2]bool{false, false}},
			{[]decider.Request{a, b}, false, [2]bool{true, true}},
			{[]decider.Request{a, {Key: "edge|b=", N: 10}}, true, [2]bool{false, false}},
		} {
			v := d.descriptors(tt.all, tt.reqs...)
			if got := [2]bool{v[0].OK, v[1].OK}; got != tt.want {
				t.Errorf("step %d: %v: want %v", i, got, tt.want)
			}
		}
	})
}

// Windows of the clock count as envoyproxy/ratelimit does: its counter is an INCRBY.
func TestFixedWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newLimits(t, config.FixedWindow, `
domain: edge
descriptors:
- {key: one, value: "1", rate_limit: {unit: minute, requests_per_unit: 10}}
- {key: many, rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: none, rate_limit: {unit: second, requests_per_unit: 0}}
`)
		limits := map[string]struct {
			limit  int
			period time.Duration
		}{"edge|one=1": {10, time.Minute}, "edge|many=a": {5, time.Hour}, "edge|many=b": {5, time.Hour}, "edge|none=": {0, time.Second}}
		keys := []string{"edge|one=1", "edge|many=a", "edge|many=b", "edge|none="}
		counts, r := map[string]int{}, rand.New(rand.NewPCG(1, 2))
		for range 20_000 {
			time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
			key, n := keys[r.IntN(len(keys))], r.IntN(4)
			l, now := limits[key], time.Now().UnixNano()
			window := key + strconv.FormatInt(now/int64(l.period), 10)
			counts[window] += n
			v := d.ask(key, n)
			ok, left, until := counts[window] <= l.limit, max(l.limit-counts[window], 0), l.period-time.Duration(now%int64(l.period))
			if a := v.Answers[0]; v.OK != ok || a.Remaining != left || a.ResetAfter != until {
				t.Fatalf("%v: %q, %d: %v, %+v: want %v, %d left, reset after %v", time.Now(), key, n, v.OK, a, ok, left, until)
			}
		}
	})
}

// Rules of entries count for descriptors: the first that matches, or all.
func TestEntries(t *testing.T) {
	for _, all := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			rules := &config.Rules{Rules: []config.Rule{
				{Name: "posts", Domain: "edge", Entries: map[string]string{"method": "POST", "path": "/api/*"}, Per: config.PerRule, Quota: quota(5, time.Hour, "")},
				{Name: "users", Entries: map[string]string{"user": "*"}, Quota: quota(2, time.Hour, "")},
			}}
			both := 4
			if all {
				rules.Apply, both = config.All, 2
			}
			d := newDesk(t, server.Config{Rules: rules})
			d.allows("edge|path=/api/a|user=1|method=POST", both, 4)
			d.allows("edge|method=POST|path=/api/b", 5-both, 9)
			d.allows("edge|user=2|method=GET|path=/api/a", 2, 3)
			d.allows("shop|user=2", 2, 3)
			d.allows("edge|method=POST|path=/", 9, 9)
			d.allows("edge|method=POST|path=/api/a|", 9, 9) // no descriptor
		})
	}
}

// Rules of entries are laid over others.
func TestEntriesInAnOverlay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		two := config.Rule{Entries: map[string]string{"user": "*"}}
		two.Rate.Count = 2
		d := newDesk(t, server.Config{Rules: &config.Rules{Merge: true, Rules: []config.Rule{{Glob: "*", Quota: quota(5, time.Hour, config.Fixed)}, two}}})
		d.allows("edge|user=1", 2, 9)
		d.allows("edge|path=1", 5, 9)
	})
}
