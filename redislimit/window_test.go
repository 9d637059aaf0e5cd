//go:build system

package redislimit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

// A pair is a key in the server and its model.
type pair struct {
	name  string
	quota redisscript.Quota
	limit int
	model counted
}

// pairs returns keys of all kinds. Their times are short, so that many windows pass, and whole
// milliseconds, so that gcra counts exactly too.
func pairs(t *testing.T, chance *rand.Rand, count int) []pair {
	all := make([]pair, count)
	for i := range all {
		p := &all[i]
		period := []time.Duration{2, 5, 20, 100, 1000, 3_600_000}[chance.IntN(6)] * time.Millisecond
		p.limit = []int{0, 1, 2, 3, 7, 10, 1000}[chance.IntN(7)]
		kind := redisscript.WindowKind(i % 4)
		p.name = fmt.Sprintf("{trace}:%d:%d", kind, i)
		var err error
		if kind == 0 {
			q := gcra.Per(1, period, max(p.limit, 1))
			p.limit = q.Burst()
			p.quota, err = redisscript.NewQuota(q)
			p.model = &tokenModel{q: q, interval: period}
		} else {
			p.quota, err = redisscript.NewWindow(kind, p.limit, period)
			p.model = &windowModel{kind: kind, period: period}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Calls for several keys of mixed kinds have the same results in a server as in memory.
func TestMixedConformance(t *testing.T) {
	for _, engine := range redistest.Engines {
		server := redistest.Start(t, engine)
		for n := range 6 {
			t.Run(fmt.Sprintf("%s/%d", engine, n), func(t *testing.T) {
				t.Parallel()
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				chance := rand.New(rand.NewPCG(seed, 1))
				rdb := client(t, server)
				all := pairs(t, chance, 8)
				for i := range all {
					all[i].name = fmt.Sprint(n, all[i].name)
				}
				for step := range 400 {
					if chance.IntN(3) == 0 {
						time.Sleep(time.Duration(chance.IntN(4000)) * time.Microsecond)
					}
					chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
					mixedStep(t, chance, rdb, step, all[:1+chance.IntN(4)])
				}
			})
		}
	}
}

// A mixedCall is a call of the script for some keys.
type mixedCall struct {
	keys   []pair
	takes  []redisscript.Take
	quotas []*redisscript.Quota
	limits []int // their own, or those of the keys
}

// random adds a random Take of a key to the call.
func (c *mixedCall) random(chance *rand.Rand, p *pair) {
	var ask redisscript.Take
	n := chance.IntN(p.limit + 2)
	switch chance.IntN(6) {
	case 0: // look
	case 1:
		ask = redisscript.Take{N: -n} // give back
	case 2:
		ask = redisscript.Take{N: n, Debt: chance.IntN(p.limit + 1)} // charge
	case 3:
		ask = redisscript.Take{N: n, Least: min(n, 1)} // at most
	default:
		ask = redisscript.Take{N: n, Least: n}
	}
	ask.Most, ask.Soft = weir.Never, chance.IntN(4) == 0
	q, limit := p.quota, p.limit
	if chance.IntN(4) == 0 && ask.Debt == 0 {
		limit = 1 + chance.IntN(p.limit+3)
		q = q.Within(limit)
		if _, tokens := p.model.(*tokenModel); tokens {
			limit = min(limit, p.limit)
		}
	}
	c.takes, c.quotas, c.limits = append(c.takes, ask), append(c.quotas, &q), append(c.limits, limit)
}

// run runs the script.
func (c *mixedCall) run(t *testing.T, rdb redis.Scripter) redisscript.Reply {
	t.Helper()
	names := make([]string, len(c.keys))
	for i := range c.keys {
		names[i] = c.keys[i].name
	}
	return run(t, rdb, names, c.quotas, c.takes)
}

// mixedStep makes one call for some keys, and compares its reply with the models.
func mixedStep(t *testing.T, chance *rand.Rand, rdb redis.Scripter, step int, keys []pair) {
	c := mixedCall{keys: keys}
	for i := range keys {
		c.random(chance, &keys[i])
	}
	r := c.run(t, rdb)
	granted, fit, denied := true, make([]int, len(keys)), make([]bool, len(keys))
	for i, ask := range c.takes {
		fit[i] = ask.N
		if ask.N >= 0 {
			fit[i] = keys[i].model.fits(r.Time, ask.N, c.limits[i], ask.Debt)
			denied[i] = fit[i] < ask.Least || fit[i] < 0
			granted = granted && (ask.Soft || !denied[i])
		}
	}
	if r.Granted != granted {
		t.Fatalf("step %d: %+v: granted %v, want %v", step, c, r.Granted, granted)
	}
	for i, ask := range c.takes {
		m := keys[i].model
		took, want := 0, weir.Decision{OK: !denied[i]}
		if denied[i] {
			want.RetryAfter = m.retry(r.Time, &ask, c.limits[i])
			if ask.Least > 0 {
				m.deny(r.Time, ask.N, c.limits[i])
			}
		} else if granted {
			took = m.take(r.Time, fit[i])
		}
		look := m.look(r.Time, c.limits[i])
		want.Remaining, want.ResetAfter = look.Remaining, look.ResetAfter
		got := r.Decision(i, c.quotas[i], &ask)
		if got != want || r.Taken(i) != took || r.Used(i, c.quotas[i]) != m.used(r.Time) || r.Denied(i, c.quotas[i], &ask) != denied[i] {
			t.Fatalf("step %d at %v, %+v of %v under %d, granted %v: %+v, took %d, %d used; want %+v, %d, %d",
				step, r.Time, ask, keys[i].name, c.limits[i], granted, got, r.Taken(i), r.Used(i, c.quotas[i]), want, took, m.used(r.Time))
		}
	}
}
