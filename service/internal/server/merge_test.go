package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// overlapping are rules as a GoCC file says them: each lays its fields over those
// of the rules before it.
func overlapping(n int) *config.Rules {
	r := &config.Rules{Merge: true, Rules: []config.Rule{one("defaults", quota(100, time.Minute, config.Fixed))}}
	for i := range n {
		r.Rules = append(r.Rules, config.Rule{
			Name: fmt.Sprint("bit", i), Regex: fmt.Sprintf("x%d;", i),
			Quota: config.Quota{Rate: config.Rate{Count: i + 1}},
		})
	}
	return r
}

func TestRulesLaidOverEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := overlapping(5)
		d := newDesk(t, server.Config{Rules: rules})
		for mask := range 1 << 5 {
			key, limit := "key ", 100
			for i := range 5 {
				if mask>>i&1 == 1 {
					key += fmt.Sprintf("x%d;", i)
					limit = i + 1
				}
			}
			d.allows(key, limit, 200)
		}
		must(t, d.Reload(overlapping(5)))
		d.allows("key x2;", 0, 10) // counts are kept
		check(t, "rules", len(d.Stats().Rules), 32)
		must(t, d.Reload(overlapping(2)))
		d.allows("key x2;", 10, 10) // under the defaults now
		d.allows("key x1;", 0, 10)  // as before
		check(t, "rules", len(d.Stats().Rules), 4)
	})
}

func TestRulesMadeOfOthersAreBounded(t *testing.T) {
	const bits = 14
	rules := overlapping(bits)
	s := newDesk(t, server.Config{Rules: rules, Memory: 1 << 20})
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 3000 {
		key := fmt.Sprint("key ", i)
		for bit := range bits {
			if rng.IntN(2) == 0 {
				key += fmt.Sprintf(" x%d;", bit)
			}
		}
		if v := s.ask(key, 1); !v.OK {
			t.Fatalf("%s: %+v", key, v)
		}
	}
	if n := len(s.Stats().Rules); n > 1000+bits {
		t.Errorf("%d rules", n)
	}
}

// TestRulesMadeOfOthersShareMemory: however many there are, those of one window
// have one table.
func TestRulesMadeOfOthersShareMemory(t *testing.T) {
	rules := overlapping(0)
	for i := range 2000 {
		rules.Rules = append(rules.Rules, config.Rule{
			Name: fmt.Sprint("key", i), Key: fmt.Sprint("k", i), Quota: config.Quota{Rate: config.Rate{Count: 2}},
		})
	}
	d := newDesk(t, server.Config{Rules: rules, Memory: 1 << 20})
	for i := range 2000 {
		d.allows(fmt.Sprint("k", i), 2, 3)
	}
	d.allows("other", 100, 101)
	memory := 0
	for _, r := range d.Stats().Rules {
		memory += r.Memory
	}
	if memory == 0 || memory > 1<<20 {
		t.Errorf("%d bytes", memory)
	}
}

// TestRulesMadeOfOthersMayBeBuckets: then each has its own, and keeps it.
func TestRulesMadeOfOthersMayBeBuckets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		buckets := func() *config.Rules {
			rules := overlapping(2)
			rules.Rules[0].Algorithm = config.GCRA
			return rules
		}
		d := newDesk(t, server.Config{Rules: buckets()})
		d.allows("x0;", 1, 2)
		d.allows("x0;x1;", 2, 3)
		must(t, d.Reload(buckets()))
		d.allows("x0;", 0, 1)
		d.allows("x0;x1;", 0, 1)
	})
}

// TestRulesMadeOfOthersChangeTheirWindow, or become rules of their own.
func TestRulesMadeOfOthersChangeTheirWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{Rules: overlapping(1)})
		d.allows("a", 100, 101)
		longer := overlapping(1)
		longer.Rules[0].Rate.Period = time.Hour
		must(t, d.Reload(longer))
		d.allows("a", 100, 101)
		time.Sleep(2 * time.Minute)
		d.allows("a", 0, 1)
		must(t, d.Reload(&config.Rules{Rules: longer.Rules[:1]}))
		d.allows("a", 100, 101)
		time.Sleep(2 * time.Minute)
		d.allows("a", 0, 1)
		must(t, d.Reload(overlapping(1)))
		d.allows("a", 100, 101)
		time.Sleep(time.Minute)
		d.allows("a", 100, 101)
	})
}

// TestWindowsInCommonOutliveTheRuleThatCameFirst: they are counted, and kept over a
// restart, whichever of their rules is left; those of no rule any more are not.
func TestWindowsInCommonOutliveTheRuleThatCameFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := overlapping(2)
		d := newDesk(t, server.Config{Rules: rules})
		d.allows("x0;", 1, 2)
		d.allows("x1;", 2, 3)
		left := *rules
		left.Rules = []config.Rule{rules.Rules[0], rules.Rules[2]}
		must(t, d.Reload(&left))
		if st := d.Stats().Rules; len(st) != 1 || st[0].Memory == 0 {
			t.Errorf("%+v", st)
		}
		next, _ := d.next(server.Config{Rules: &left}, d.snapshot())
		next.allows("x1;", 0, 1)

		longer := left
		longer.Rules = []config.Rule{left.Rules[0], left.Rules[1]}
		longer.Rules[0].Rate.Period = time.Hour
		must(t, next.Reload(&longer))
		must(t, next.Reload(&left))
		next.allows("x1;", 2, 3)
	})
}
