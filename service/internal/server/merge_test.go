package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
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
	st := s.Stats().Rules
	if n := len(st); n != 1001 {
		t.Errorf("%d rules", n)
	}
	if rest := st[len(st)-1]; rest.Rule.Name != "other combinations" || rest.Allowed == 0 {
		t.Errorf("beyond the bound: %q, %d allowed", rest.Rule.Name, rest.Allowed)
	}
	all := "each"
	for bit := range bits {
		all += fmt.Sprintf(" x%d;", bit)
	}
	for bit := range bits { // all patterns but one: the last that matches sets the limit
		want := bits
		if bit == bits-1 {
			want--
		}
		s.allows(strings.ReplaceAll(all, fmt.Sprintf(" x%d;", bit), ""), want, 2*bits)
	}
}

// TestRulesMadeOfOthersHaveAllParts: of effective rules beyond the bound on remembered
// ones, too, each pattern that matches a key gives its field: the count, the period, the
// queue.
func TestRulesMadeOfOthersHaveAllParts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const bits = 11
		rules := overlapping(bits)
		rules.Rules = append(rules.Rules,
			config.Rule{Name: "count", Regex: "count;", Quota: config.Quota{Rate: config.Rate{Count: 7}}},
			config.Rule{Name: "period", Regex: "period;", Quota: config.Quota{Rate: config.Rate{Period: time.Hour}}},
			config.Rule{Name: "queue", Regex: "queue;", Queue: ptr(2)},
		)
		d := newDesk(t, server.Config{Rules: rules})
		combination := func(i int) (key string) {
			for bit := range bits {
				if i>>bit&1 == 1 {
					key += fmt.Sprintf("x%d;", bit)
				}
			}
			return key
		}
		for i := range 1200 {
			d.ask(combination(i), 1)
		}
		check(t, "rules", len(d.Stats().Rules), 1001)
		for i := 1200; i < 1250; i++ {
			key := combination(i) + "count;period;queue;"
			d.allows(key, 7, 20)
			var waits []<-chan string
			for range 2 {
				waits = append(waits, d.queue(t.Context(), decider.Request{Key: key, N: 1}))
			}
			check(t, "the third", <-d.queue(t.Context(), decider.Request{Key: key, N: 1}), "queue_full after 0s")
			for _, w := range waits {
				check(t, "who waits", <-w, "granted after 1h0m0s")
			}
		}
	})
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

// TestOverlaysMustBeWindows: other rules are refused when they are loaded.
func TestOverlaysMustBeWindows(t *testing.T) {
	for name, change := range map[string]func(*config.Rule){
		"a token bucket":   func(r *config.Rule) { r.Algorithm = config.GCRA },
		"one for all keys": func(r *config.Rule) { r.Per = config.PerRule },
		"with a candidate": func(r *config.Rule) { r.Candidate = &r.Quota },
		"with leases":      func(r *config.Rule) { r.Concurrency = &config.Concurrency{Limit: 1} },
		"not in force":     func(r *config.Rule) { r.Mode = config.Off },
		"too many windows": nil,
	} {
		t.Run(name, func(t *testing.T) {
			rules := overlapping(1001)
			if change != nil {
				rules = overlapping(2)
				change(&rules.Rules[0])
			} else {
				for i := range rules.Rules {
					rules.Rules[i].Rate.Period = time.Duration(i+1) * time.Second
				}
			}
			if _, err := server.New(server.Config{Rules: rules}); err == nil {
				t.Error("there is no error")
			}
		})
	}
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
