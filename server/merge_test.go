package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/config"
	"github.com/weir-go/weir/server"
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
