//go:build external

package redislimit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/internal/window"
)

// A counted key has the state of one key in memory, by packages gcra and window.
type counted interface {
	// fits returns how many of n can be taken within a limit and a debt; less than zero if
	// there is no room even for none.
	fits(now time.Duration, n, limit, debt int) int
	// take takes n, which fit, or gives back -n.
	take(now time.Duration, n int)
	// deny counts a denied request of n.
	deny(now time.Duration, n, limit int)
	// look returns what remains within a limit, and when nothing counts any more.
	look(now time.Duration, limit int) weir.Decision
	// retry returns the wait for n within a limit.
	retry(now time.Duration, n, limit int) time.Duration
	used(now time.Duration) int
}

// A tokenModel is a token bucket.
type tokenModel struct {
	q        gcra.Quota
	interval time.Duration // between tokens
	b        gcra.Bucket
}

func (m *tokenModel) fits(now time.Duration, n, limit, debt int) int {
	if n == 0 {
		limit = m.q.Burst()
	}
	return min(n, int(math.Floor(m.q.Tokens(m.b, now)))-m.q.Burst()+limit+debt)
}

func (m *tokenModel) take(now time.Duration, n int) {
	if n < 0 {
		m.b = m.q.Refund(m.b, -n)
		return
	}
	took := 0
	if m.b, took = m.q.Charge(m.b, now, n, 1<<20); took != n {
		panic("the model cannot take what fits")
	}
}

func (m *tokenModel) deny(time.Duration, int, int) {}

func (m *tokenModel) look(now time.Duration, limit int) weir.Decision {
	_, d := m.q.Take(m.b, now, 0)
	d.Remaining = max(d.Remaining-m.q.Burst()+limit, 0)
	return d
}

func (m *tokenModel) retry(now time.Duration, n, limit int) time.Duration {
	if n > limit {
		return weir.Never
	}
	_, d := m.q.Take(m.b, now, 0)
	return d.ResetAfter - time.Duration(limit-n)*m.interval
}

func (m *tokenModel) used(now time.Duration) int {
	return m.q.Burst() - int(math.Floor(m.q.Tokens(m.b, now)))
}

// A windowModel is a window.
type windowModel struct {
	kind   redisscript.WindowKind
	period time.Duration
	c      window.Count
}

// quota returns the Quota for a limit. A window that begins with its first event begins now,
// if none has begun.
func (m *windowModel) quota(now time.Duration, limit int) window.Quota {
	q := window.Quota{Limit: limit, Period: m.period}
	switch m.kind {
	case redisscript.FixedWindow:
		q.Calendar = window.Every(m.period, now)
	case redisscript.ClockWindow:
		q.Calendar = window.Every(m.period, 0)
	case redisscript.SlidingWindow:
		q.Sliding = true
	}
	return q
}

func (m *windowModel) fits(now time.Duration, n, limit, debt int) int {
	if n == 0 && m.kind != redisscript.ClockWindow {
		return 0
	}
	return min(n, limit+debt-m.used(now))
}

func (m *windowModel) take(now time.Duration, n int) {
	q, took := m.quota(now, 0), 0
	if n >= 0 {
		if m.c, took = q.Charge(m.c, now, n, 1<<43); took != n {
			panic("the model cannot count what fits")
		}
		return
	}
	if m.kind == redisscript.SlidingWindow || now < m.c.At {
		if m.kind == redisscript.FixedWindow { // the window of the count
			q.Calendar = window.Every(m.period, m.c.At)
		}
		m.c = q.Refund(m.c, now, -n)
	}
	if m.kind == redisscript.FixedWindow && m.c.Used == 0 {
		m.c = window.Count{}
	}
}

func (m *windowModel) deny(now time.Duration, n, limit int) {
	if m.kind == redisscript.ClockWindow {
		q := m.quota(now, limit)
		m.c, _ = q.Charge(m.c, now, n, math.MaxInt32)
	}
}

func (m *windowModel) look(now time.Duration, limit int) weir.Decision {
	q := m.quota(now, limit)
	_, d := q.Take(m.c, now, 0)
	if _, end := q.Calendar.At(now); m.kind == redisscript.ClockWindow {
		d.ResetAfter = end - now
	}
	return d
}

func (m *windowModel) retry(now time.Duration, n, limit int) time.Duration {
	q := m.quota(now, limit)
	_, d := q.Take(m.c, now, n)
	return d.RetryAfter
}

func (m *windowModel) used(now time.Duration) int {
	q := m.quota(now, 1<<43)
	_, d := q.Take(m.c, now, 0)
	return 1<<43 - d.Remaining
}

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

// mixedStep makes one call for some keys, and compares its reply with the models.
func mixedStep(t *testing.T, chance *rand.Rand, rdb redis.Scripter, step int, keys []pair) {
	takes, quotas, limits := make([]redisscript.Take, len(keys)), make([]*redisscript.Quota, len(keys)), make([]int, len(keys))
	var names []string
	var args []any
	for i := range keys {
		p := &keys[i]
		n := chance.IntN(p.limit + 2)
		switch chance.IntN(6) {
		case 0:
			takes[i] = redisscript.Take{} // look
		case 1:
			takes[i] = redisscript.Take{N: -n} // give back
		case 2:
			takes[i] = redisscript.Take{N: n, Debt: chance.IntN(p.limit + 1)} // charge
		case 3:
			takes[i] = redisscript.Take{N: n, Least: min(n, 1)} // at most
		default:
			takes[i] = redisscript.Take{N: n, Least: n}
		}
		takes[i].Most, takes[i].Soft = weir.Never, chance.IntN(4) == 0
		q := p.quota
		limits[i] = p.limit
		if chance.IntN(4) == 0 && takes[i].Debt == 0 {
			own := 1 + chance.IntN(p.limit+3)
			q = q.Within(own)
			if limits[i] = own; p.tokens() {
				limits[i] = min(own, p.limit)
			}
		}
		quotas[i], names = &q, append(names, p.name)
		args = q.Args(args, &takes[i])
	}
	numbers, err := bucketScript.Run(context.Background(), rdb, names, args...).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	r, err := redisscript.ReadReply(numbers, quotas...)
	if err != nil {
		t.Fatal(err)
	}
	granted, fit, denied := true, make([]int, len(keys)), make([]bool, len(keys))
	for i, ask := range takes {
		fit[i] = ask.N
		if ask.N >= 0 {
			fit[i] = keys[i].model.fits(r.Time, ask.N, limits[i], ask.Debt)
			denied[i] = fit[i] < ask.Least || fit[i] < 0
			granted = granted && (ask.Soft || !denied[i])
		}
	}
	if r.Granted != granted {
		t.Fatalf("step %d: %+v of %v: granted %v, want %v", step, takes, names, r.Granted, granted)
	}
	for i, ask := range takes {
		m := keys[i].model
		var want weir.Decision
		if denied[i] {
			want.RetryAfter = m.retry(r.Time, max(ask.Least, 0), limits[i])
			if ask.Least > 0 {
				m.deny(r.Time, ask.N, limits[i])
			}
		} else if granted {
			m.take(r.Time, fit[i])
		}
		look := m.look(r.Time, limits[i])
		want.OK, want.Remaining, want.ResetAfter = !denied[i], look.Remaining, look.ResetAfter
		got := r.Decision(i, quotas[i], &takes[i])
		if denied[i] && ask.Least == 0 { // to be out of debt
			want.RetryAfter = got.RetryAfter
		}
		if got != want || r.Used(i, quotas[i]) != m.used(r.Time) {
			t.Fatalf("step %d at %v, %+v of %v under %d, granted %v: %+v, %d used; want %+v, %d", step, r.Time, ask, names[i], limits[i], granted, got, r.Used(i, quotas[i]), want, m.used(r.Time))
		}
	}
}

func (p *pair) tokens() bool { _, ok := p.model.(*tokenModel); return ok }
