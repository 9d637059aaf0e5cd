//go:build !race

package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// spent spends all tokens of n keys of a prefix.
func (d desk) spent(prefix string, n int) {
	for i := range n {
		d.ask(fmt.Sprint(prefix, i), 10)
	}
}

// Whatever rules and candidates come and go, and however many keys there are, the counts
// keep to the memory of the server. Counts that fit survive.
func TestMemoryIsABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const memory = 16 << 20
		rule := func(i int) config.Rule {
			return config.Rule{Name: fmt.Sprint("r", i), Glob: fmt.Sprintf("%c*", 'a'+i), Quota: quota(10, time.Hour, []config.Algorithm{"", config.Fixed}[i%2])}
		}
		rng := rand.New(rand.NewPCG(1, 5))
		first := rule(0)
		d := newDesk(t, server.Config{Memory: memory}, first)
		d.spent("a", 100)
		for step := range 8 {
			rules := []config.Rule{first}
			for i := 1; i <= step%3; i++ {
				r := rule(i)
				if rng.IntN(2) == 0 {
					r.Candidate = ptr(quota(5, time.Hour, ""))
				}
				if rng.IntN(3) == 0 {
					r.Memory = 2300 << 10
				}
				rules = append(rules, r)
			}
			d.reload("", rules...)
			d.spent(fmt.Sprint("aflood", step, "-"), 20_000)
			used, most := 0, 0
			for _, r := range d.Stats().Rules {
				used, most = used+r.Memory, most+r.MemoryMax
			}
			if used > most || most > memory {
				t.Errorf("step %d: %d bytes of %d: want at most %d", step, used, most, memory)
			}
		}
		for i := range 100 {
			d.allows(fmt.Sprint("a", i), 0, 1)
		}
	})
}

// A rule with its own memory does not deny its fresh keys because the keys of others
// are too many.
func TestMemoryApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open, paid := one("open", quota(10, time.Hour, "")), one("paid", quota(10, time.Hour, ""))
		paid.Glob, paid.Memory = "paid:*", 1<<20
		d := newDesk(t, server.Config{Memory: 2 << 20}, paid, open)
		d.spent("flood", 100_000)
		d.allows("paid:1", 10, 11)
		denied := 0
		for i := range 1000 {
			if !d.ask(fmt.Sprint("paid:fresh", i), 1).OK {
				denied++
			}
		}
		check(t, "denied", denied, 0)
		st := d.Stats().Rules
		if st[0].Forgotten > 0 || st[1].Forgotten == 0 {
			t.Errorf("%d and %d forgotten: want those of the flood", st[0].Forgotten, st[1].Forgotten)
		}
	})
}

// More memory for rules than there is is an error, which changes nothing.
func TestTooMuchMemoryForRules(t *testing.T) {
	a, b := one("a", quota(10, time.Hour, "")), one("b", quota(10, time.Hour, ""))
	d := newDesk(t, server.Config{Memory: 2 << 20}, a)
	a.Memory = 2 << 20
	must(t, d.Reload(&config.Rules{Rules: []config.Rule{a}}))
	for _, own := range []int{0, 1 << 20} {
		b.Memory = bytesize.Size(own)
		err := d.Reload(&config.Rules{Rules: []config.Rule{a, b}})
		if err == nil || !strings.Contains(err.Error(), "must be at most the memory of the server, which is 2MiB") {
			t.Errorf("%v: want that it is too much", err)
		}
		check(t, "rules", len(d.Rules().Rules), 1)
	}
}
