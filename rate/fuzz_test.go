//go:build !race

package rate_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// A life plays the same events on a Limiter and on its model.
type life struct {
	t      *testing.T
	l      *rate.Limiter
	m      *model
	q      *line
	chance *rand.Rand
	leave  map[string]func()
	held   []int // costs of events that were allowed, by now
	told   []string
}

func newLife(t *testing.T, seed uint64) *life {
	chance := rand.New(rand.NewPCG(seed, 7))
	cfg := rate.Config{
		Queue:   []int{0, 3, 8, -1}[chance.IntN(4)],
		MaxWait: []time.Duration{0, 300 * time.Millisecond}[chance.IntN(2)],
		MaxDebt: []int{0, 2, 20, -1}[chance.IntN(4)],
	}
	m := &model{
		rate: 10, burst: 5, has: 5 * one, maxWait: cfg.MaxWait, maxDebt: cfg.MaxDebt, maxQueue: cfg.Queue,
		ties: map[time.Duration]bool{},
	}
	switch cfg.Queue {
	case 0:
		m.maxQueue = rate.DefaultQueue
	case -1:
		m.maxQueue = 0
	}
	l := rate.New(gcra.Per(10, time.Second, 5), cfg)
	return &life{t: t, l: l, m: m, q: newLine(t, l), chance: chance, leave: map[string]func(){}}
}

// step lets something happen to both. It reports false where they differ, or
// where the order of two things is open.
func (f *life) step(i int) bool {
	// A whole number of microseconds, and some nanoseconds that no other step has.
	time.Sleep(time.Duration(f.chance.IntN(150_000))*time.Microsecond + time.Duration(1+f.chance.IntN(900)))
	synctest.Wait()
	m := f.m
	m.advance(time.Since(f.q.began))
	m.happens()
	n := f.chance.IntN(6)
	switch kind := f.chance.IntN(12); kind {
	case 0, 1, 2, 3:
		who := fmt.Sprint("w", i)
		patience := time.Duration(1+f.chance.IntN(2000))*time.Millisecond + 901*time.Nanosecond
		f.told = append(f.told, fmt.Sprintf("%s waits for %d within %v", who, n, patience))
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		f.leave[who] = cancel
		f.t.Cleanup(cancel)
		f.q.joinUntil(ctx, who, n)
		m.wait(who, n, patience)
	case 4, 5:
		f.told = append(f.told, fmt.Sprintf("allow %d", n))
		if got, want := f.l.AllowN(time.Now(), n), m.allow(n); got != want {
			f.t.Errorf("AllowN(%d): %v: want %v", n, got, want)
		}
	case 6:
		f.take(n)
	case 7:
		if len(m.line) > 0 {
			who := m.line[f.chance.IntN(len(m.line))].who
			f.told = append(f.told, who+" leaves")
			f.leave[who]()
			m.leave(who)
		}
	case 8:
		burst := f.chance.IntN(8)
		f.told = append(f.told, fmt.Sprintf("burst %d", burst))
		f.l.SetBurst(burst)
		m.change(m.rate, burst)
	case 9:
		r := []int64{0, 1, 4, 10, 20, 100}[f.chance.IntN(6)]
		f.told = append(f.told, fmt.Sprintf("limit %d", r))
		f.l.SetLimit(rate.Limit(r))
		m.change(r, m.burst)
	case 10:
		r := f.l.ReserveN(time.Now(), n)
		if ok := m.allow(n); !ok {
			r.Cancel()
		} else if f.held = append(f.held, n); !r.OK() || r.Delay() != 0 {
			f.t.Errorf("ReserveN(%d): %v, %v", n, r.OK(), r.Delay())
		}
		f.told = append(f.told, fmt.Sprintf("reserve %d", n))
	case 11:
		if len(f.held) > 0 {
			was := &f.held[f.chance.IntN(len(f.held))]
			n = f.chance.IntN(*was + 3)
			f.told = append(f.told, fmt.Sprintf("settle %d for %d", *was, n))
			is := *was + m.settle(n-*was)
			if *was = f.l.Settle(*was, n); *was != is {
				f.t.Errorf("%d charged: want %d", *was, is)
			}
		}
	}
	synctest.Wait()
	return !m.tied && f.same()
}

func (f *life) take(n int) {
	m := f.m
	f.told = append(f.told, fmt.Sprintf("take %d", n))
	retry := m.until(m.stoodFor() + int64(n)*one)
	if n > m.burst {
		retry = never
	}
	ok := m.allow(n)
	left := min(max(m.tokens()/one, 0), int64(m.burst))
	if d := f.l.Take(n); d.OK != ok || (d.RetryAfter-retry).Abs() > near || d.Remaining != int(left) {
		f.t.Errorf("Take(%d): %+v: want %v, %v, %d", n, d, ok, retry, left)
	}
}

// near is the rounding error that changes of the limit may make.
const near = time.Microsecond

func (f *life) same() bool {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	left := slices.Clone(f.m.said)
	for _, s := range f.q.said {
		left = slices.DeleteFunc(left, func(m said) bool { return m.what == s.what && (m.at-s.at).Abs() <= near })
	}
	got, want := f.l.Tokens(), float64(f.m.tokens())/float64(one)
	if len(left) == 0 && len(f.q.said) == len(f.m.said) && math.Abs(got-want) < 1e-6 && f.l.Waiting() == len(f.m.line) {
		return true
	}
	f.t.Errorf("%v, %v tokens, %d wait: want %v, %v, %v", f.q.said, got, f.l.Waiting(), f.m.said, want, f.m)
	return false
}

// The same random life for the Limiter and for its model: the same answers at
// the same instants, first come, first served, and the same tokens.
func FuzzModel(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		bubble(t, func(t *testing.T) {
			l := newLife(t, seed)
			for i := range 60 {
				if !l.step(i) || t.Failed() {
					break
				}
			}
			if t.Failed() {
				t.Errorf("after %q", l.told)
			}
		})
	})
}
