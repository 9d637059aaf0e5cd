package rate_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// A ledger notes the tokens taken, with their times, and the rates.
type ledger struct {
	began time.Time
	mu    sync.Mutex
	taken []entry
	rates []entry // from then on, n a second
}

type entry struct {
	at time.Duration
	n  float64
}

func newLedger(rate float64) *ledger {
	return &ledger{began: time.Now(), rates: []entry{{0, rate}}}
}

// note counts n events now; less than zero: given back.
func (b *ledger) note(n int) { b.noteAt(time.Now(), n) }

func (b *ledger) noteAt(at time.Time, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = append(b.taken, entry{at.Sub(b.began), float64(n)})
}

func (b *ledger) total() (n float64) {
	for _, e := range b.taken {
		n += e.n
	}
	return n
}

// refilled returns what has come in until the instant.
func (b *ledger) refilled(until time.Duration) (n float64) {
	for i, r := range b.rates {
		end := until
		if i+1 < len(b.rates) {
			end = min(end, b.rates[i+1].at)
		}
		n += r.n * max(end-r.at, 0).Seconds()
	}
	return n
}

// most returns the most that was taken in any window of time, beyond what came
// in during it. What happens at one instant has no order.
func (b *ledger) most() float64 {
	slices.SortFunc(b.taken, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	most, least, sum := 0.0, math.Inf(1), 0.0
	for i, e := range b.taken {
		came := b.refilled(e.at)
		if i == 0 || b.taken[i-1].at < e.at {
			least = min(least, sum-came)
		}
		sum += e.n
		if i+1 == len(b.taken) || b.taken[i+1].at > e.at {
			most = max(most, sum-came-least)
		}
	}
	return most
}

// A crowd is callers of one Limiter, of all kinds.
type crowd struct {
	t *testing.T
	l *rate.Limiter
	b *ledger

	pauses bool // long enough for the bucket to be full
}

type caller func(c crowd, chance *rand.Rand)

var (
	allower caller = func(c crowd, chance *rand.Rand) {
		if n := 1 + chance.IntN(3); c.l.AllowN(time.Now(), n) {
			c.b.note(n)
		}
	}
	laggard caller = func(c crowd, chance *rand.Rand) {
		at := time.Now().Add(-time.Duration(chance.IntN(1e9)))
		if at.After(c.b.began) && c.l.AllowN(at, 1) {
			c.b.noteAt(at, 1)
		}
	}
	waiting caller = func(c crowd, chance *rand.Rand) {
		n := 1 + chance.IntN(5)
		if c.l.WaitN(c.t.Context(), n) == nil {
			c.b.note(n)
		}
	}
	leaver caller = func(c crowd, chance *rand.Rand) {
		ctx, cancel := context.WithCancel(c.t.Context())
		defer time.AfterFunc(time.Duration(chance.IntN(3e8)), cancel).Stop()
		defer cancel()
		n := 1 + chance.IntN(5)
		if c.l.WaitN(ctx, n) == nil {
			c.b.note(n)
		}
	}
	late caller = func(c crowd, chance *rand.Rand) {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(chance.IntN(3e8)))
		defer cancel()
		if c.l.Wait(ctx) == nil {
			c.b.note(1)
		}
	}
	settler caller = func(c crowd, chance *rand.Rand) {
		if time.Since(c.b.began) > 40*time.Second {
			return // what it gives back at the end might be more than the bucket holds
		}
		p, err := c.l.Acquire(c.t.Context(), 5)
		if err != nil {
			c.t.Error(err)
		}
		c.b.note(5)
		time.Sleep(time.Duration(chance.IntN(1e8)))
		n := chance.IntN(5)
		c.b.note(n - 5)
		p.Use(n)
		p.Release(weir.Success)
	}
	reserver caller = func(c crowd, chance *rand.Rand) {
		n := 1 + chance.IntN(5)
		r := c.l.ReserveN(time.Now(), n)
		if chance.IntN(2) == 0 {
			time.Sleep(r.Delay() / time.Duration(2+chance.IntN(3)))
			if r.Delay() > 0 {
				r.Cancel()
				return
			}
		}
		time.Sleep(r.Delay())
		c.b.note(n)
	}
	// hungry never leaves the line, so that the bucket is never full.
	hungry caller = func(c crowd, chance *rand.Rand) {
		for time.Since(c.b.began) < time.Minute {
			n := 1 + chance.IntN(5)
			if err := c.l.WaitN(c.t.Context(), n); err != nil {
				c.t.Error(err)
				return
			}
			c.b.note(n)
		}
	}
)

// together lets callers of each kind call for a minute, and waits for all.
func (c crowd) together(seed uint64, kinds ...caller) {
	var all sync.WaitGroup
	for i, call := range slices.Concat(kinds, kinds, kinds) {
		chance := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for time.Since(c.b.began) < time.Minute {
				call(c, chance)
				time.Sleep(time.Duration(chance.IntN(1e8)))
				if c.pauses && chance.IntN(100) == 0 {
					time.Sleep(time.Duration(chance.IntN(1e10)))
				}
			}
		})
	}
	all.Wait()
}

// Whatever is called, in any window of time no more happens than the burst and what
// comes in during the window. Where tokens are not given back for ever, no less
// happens either.
func TestNeverMoreThanBurstAndRate(t *testing.T) {
	const burst = 8
	for name, tt := range map[string]struct {
		kinds []caller
		exact bool // nothing is lost
	}{
		"allow":              {[]caller{allower, laggard}, false},
		"wait":               {[]caller{allower, waiting, leaver, late}, false},
		"wait, always":       {[]caller{hungry, allower, waiting, leaver, late}, true},
		"settle":             {[]caller{waiting, leaver, settler}, false},
		"settle, always":     {[]caller{hungry, leaver, settler}, false}, // it may flow over
		"reserve":            {[]caller{reserver}, false},
		"all but the settle": {[]caller{allower, laggard, waiting, leaver, late, reserver}, false},
	} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					const perSecond = 20
					l := rate.New(gcra.Per(perSecond, time.Second, burst), rate.Config{})
					b := newLedger(perSecond)
					crowd{t, l, b, !tt.exact}.together(seed, tt.kinds...)
					if most := b.most(); most > burst+1e-6 {
						t.Errorf("%v at once: want %d", most, burst)
					}
					ended := time.Since(b.began)
					if left := burst + b.refilled(ended) - b.total() - l.Tokens(); tt.exact && math.Abs(left) > 1e-6 {
						t.Errorf("%v tokens are lost", left)
					}
					if l.Waiting() != 0 || len(b.taken) < 100 {
						t.Errorf("%d wait, %d events: the crowd is too small", l.Waiting(), len(b.taken))
					}
					time.Sleep(time.Hour)
					tokens(t, l, burst)
				})
			})
		}
	}
}

// The limit changes, up and down, and to zero and back: what comes in is the
// integral of the rate.
func TestNeverMoreThanBurstAndChangingRate(t *testing.T) {
	const burst = 8
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := rate.NewLimiter(20, burst)
				b := newLedger(20)
				var operator sync.WaitGroup
				operator.Go(func() {
					chance := rand.New(rand.NewPCG(seed, 99))
					for time.Since(b.began) < time.Minute-2*time.Second {
						time.Sleep(time.Duration(chance.IntN(1e9)))
						r := []float64{0, 3, 7, 20, 100.0 / 3, 40}[chance.IntN(6)]
						b.rates = append(b.rates, entry{time.Since(b.began), r})
						l.SetLimit(rate.Limit(r))
					}
					b.rates = append(b.rates, entry{time.Since(b.began), 20})
					l.SetLimit(20) // so that all come to an end
				})
				// What a settler gives back to a bucket that is nearly full flows over.
				exact := seed%2 == 0
				if kinds := []caller{hungry, leaver, late, allower}; exact {
					crowd{t, l, b, false}.together(seed, kinds...)
				} else {
					crowd{t, l, b, false}.together(seed, append(kinds, settler)...)
				}
				operator.Wait()
				if most := b.most(); most > burst+1e-5 {
					t.Errorf("%v at once: want %d", most, burst)
				}
				if left := burst + b.refilled(time.Since(b.began)) - b.total() - l.Tokens(); left < -1e-5 || exact && left > 1e-5 {
					t.Errorf("%v tokens are lost", left)
				}
			})
		})
	}
}
