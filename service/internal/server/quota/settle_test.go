package quota

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
)

var histories = flag.Int("histories", 4_000, "random histories of each test of settlements")

// A taken is a take that an oracle knows; n changes when it is settled.
type taken struct {
	at     time.Duration
	was, n int
}

// A ledger has a bucket, and what an oracle knows of it.
type ledger struct {
	Buckets
	now   time.Duration
	rate  float64 // tokens a nanosecond
	takes []taken
	open  []int // that are not settled
}

func newLedger(t *testing.T, q config.Quota, per config.Per) *ledger {
	l := &ledger{rate: float64(q.Rate.Count) / float64(q.Rate.Period)}
	b, err := New(clock.Manual(&l.now), q, per, MinMemory)
	if err != nil {
		t.Fatal(err)
	}
	l.Buckets = b
	return l
}

func (l *ledger) take(n int) {
	if l.Take("a", l.Fingerprint("a"), l.now, n, 0, true).OK {
		l.open = append(l.open, len(l.takes))
		l.takes = append(l.takes, taken{l.now, n, n})
	}
}

// takeLoose takes tokens that are not settled.
func (l *ledger) takeLoose(n int) {
	if l.Take("a", l.Fingerprint("a"), l.now, n, 0, false).OK {
		l.takes = append(l.takes, taken{l.now, n, n})
	}
}

// settle settles a take that is open, with a cost of at most what was taken.
func (l *ledger) settle(chance *rand.Rand) (charged, n int) {
	i := chance.IntN(len(l.open))
	t := &l.takes[l.open[i]]
	l.open = append(l.open[:i], l.open[i+1:]...)
	t.n = chance.IntN(t.was + 1)
	return l.Settle("a", t.at.Truncate(usage.Grain), t.was, t.n), t.n
}

// oracle returns what a bucket lacks from which only the costs were taken.
func (l *ledger) oracle() (missing float64) {
	at := time.Duration(0)
	for _, t := range l.takes {
		missing = max(missing-float64(t.at-at)*l.rate, 0) + float64(t.n)
		at = t.at
	}
	return max(missing-float64(l.now-at)*l.rate, 0)
}

// After a settlement, a token bucket is as one from which only the true cost was taken at the
// instant of the grant: it never has more tokens, and fewer by a 64th of the burst and the refill of
// a millisecond at most.
func TestSettlementsAreExact(t *testing.T) {
	for _, per := range []config.Per{config.PerKey, config.PerRule} {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		chance := rand.New(rand.NewPCG(seed, 44))
		for range *histories {
			q := config.Quota{Rate: config.Rate{Count: 1 + chance.IntN(1000)}, Burst: 1 + chance.IntN(1000)}
			q.Rate.Period = time.Duration(math.Exp(chance.Float64()*10) * 1e7) // 10 ms to 4 min
			l := newLedger(t, q, per)
			fill := float64(q.Burst) / l.rate
			bound := max(float64(q.Burst)/64, l.rate*1e6) + l.rate*1e6 + 1e-3
			pause, largest := fill*math.Exp(chance.Float64()*8-7), 1+chance.IntN(q.Burst)
			for range 2 + chance.IntN(30) {
				l.now += time.Duration(chance.ExpFloat64() * pause * float64(chance.IntN(2)))
				if len(l.open) == 0 || chance.IntN(3) > 0 {
					if n := 1 + chance.IntN(largest); chance.IntN(3) > 0 {
						l.take(n)
					} else {
						l.takeLoose(n)
					}
					continue
				}
				if charged, n := l.settle(chance); charged != n {
					t.Fatalf("%+v, %s: %d charged for %d", q, per, charged, n)
				}
				b := l.Buckets.(*tokens)
				missing := float64(q.Burst) - b.TokensAt("a", b.clock.Time(l.now))
				if less := missing - l.oracle(); less < -1e-3 || less > bound {
					t.Fatalf("%+v, %s: %v tokens less than the oracle has, want 0 to %v\n%+v", q, per, less, bound, l.takes)
				}
			}
		}
	}
}

// The examples of a partial settlement: 700 tokens a minute, of which 200 are taken for a cost of 80,
// or seven times 100 for 20.
func TestPartialSettlements(t *testing.T) {
	for _, tt := range []struct {
		calls, was, n int
		after         time.Duration
		left          float64
	}{
		{1, 200, 80, 4 * time.Second, 700 - 80 + 700./60*4},
		{1, 200, 80, 12 * time.Second, 700},
		{7, 100, 20, 15 * time.Second, 700},
	} {
		t.Run(fmt.Sprintf("%d times %d after %v", tt.calls, tt.was, tt.after), func(t *testing.T) {
			l := newLedger(t, config.Quota{Rate: config.Rate{Count: 700, Period: time.Minute}}, config.PerKey)
			for range tt.calls {
				l.take(tt.was)
			}
			l.now += tt.after
			charged := 0
			for range tt.calls {
				charged += l.Settle("a", 0, tt.was, tt.n)
			}
			b := l.Buckets.(*tokens)
			left := b.TokensAt("a", b.clock.Time(l.now))
			if charged != tt.calls*tt.n || math.Abs(left-tt.left) > 1e-3 {
				t.Errorf("%d charged, %v are left: want %d and %v", charged, left, tt.calls*tt.n, tt.left)
			}
		})
	}
}

// A settlement under windows changes the count of the window in which the grant was, for as long
// as that counts.
func TestWindowSettlementsAreExact(t *testing.T) {
	for _, a := range []config.Algorithm{config.Fixed, config.Sliding} {
		t.Run(string(a), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { settleWindows(t, a) }) })
	}
}

func settleWindows(t *testing.T, a config.Algorithm) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 44))
	for range *histories {
		q := config.Quota{Rate: config.Rate{Count: 1 + chance.IntN(100), Period: time.Duration(1+chance.IntN(1000)) * time.Second}, Algorithm: a}
		l := newLedger(t, q, config.PerKey)
		var began time.Duration // the fixed window
		for range 2 + chance.IntN(30) {
			time.Sleep(time.Duration(chance.ExpFloat64() * float64(q.Rate.Period) / 8).Truncate(usage.Grain))
			l.now = time.Duration(time.Now().UnixNano())
			if len(l.open) == 0 || chance.IntN(3) > 0 {
				if l.Used("a") == 0 {
					began = l.now
				}
				l.take(1 + chance.IntN(q.Rate.Count))
			} else {
				l.settle(chance)
			}
			want := 0
			if a == config.Sliding {
				want = l.fading(q.Rate.Period)
			} else if l.now < began+q.Rate.Period {
				for _, t := range l.takes {
					if t.at >= began {
						want += t.n
					}
				}
			}
			if got := l.Used("a"); got != want {
				t.Fatalf("%+v: %d used, want %d\n%+v", q, got, want, l.takes)
			}
		}
	}
}

// fading returns what counts in sliding windows if only the costs were counted.
func (l *ledger) fading(period time.Duration) int {
	last, used, into := 0, 0, l.now%period
	for _, t := range l.takes {
		switch l.now/period - t.at/period {
		case 0:
			used += t.n
		case 1:
			last += t.n
		}
	}
	return used + int((time.Duration(last)*(period-into)+period-1)/period)
}

// A take that is given back without a log gets less by what was refilled until the last take
// without one.
func TestLooseTakes(t *testing.T) {
	for _, per := range []config.Per{config.PerKey, config.PerRule} {
		for again, want := range map[bool]int{false: 80, true: 129} {
			l := newLedger(t, perMinute(700, 700), per)
			l.now = time.Minute
			l.takeLoose(200)
			l.now += 11 * time.Second
			if again {
				l.takeLoose(1)
			}
			l.now += time.Second
			if got := l.Settle("a", time.Minute, 200, 80); got != want {
				t.Errorf("%s, taken again: %t: %d charged, want %d", per, again, got, want)
			}
		}
	}
}

// No loose take is made once the bucket is watched, and none that was made is unknown then.
func TestWatch(t *testing.T) {
	for _, per := range []config.Per{config.PerKey, config.PerRule} {
		for range 5 {
			b, err := New(clock.New(), perMinute(1e9, 1e9), per, MinMemory)
			if err != nil {
				t.Fatal(err)
			}
			tokens := b.(*tokens)
			print := tokens.Fingerprint("a")
			var last [2]time.Time
			var some, all sync.WaitGroup
			some.Add(len(last))
			for i := range last {
				all.Go(func() {
					for n := range 1 << 20 {
						now := time.Now()
						if _, loose := tokens.TakeLoose(print, now, 1); !loose {
							return
						}
						if last[i] = now; n == 10 {
							some.Done()
						}
					}
				})
			}
			some.Wait()
			known := tokens.LastLoose(print, true)
			all.Wait()
			for _, at := range last {
				if at.After(known) {
					t.Errorf("%s: a take at %v: the last known is at %v", per, at, known)
				}
			}
			tokens.tokenBuckets.SetQuota(gcra.Per(1, time.Second, 1))
			if _, loose := tokens.TakeLoose(print, time.Now(), 1); loose {
				t.Errorf("%s: a loose take under another quota", per)
			}
			if again := tokens.LastLoose(print, false); !again.Equal(known) {
				t.Errorf("%s: the last take is at %v, then at %v", per, known, again)
			}
		}
	}
}

// If memory is full, or after a restart, a grant gets less back by what was refilled from the
// instant at which its true cost was until the last take that is forgotten.
func TestForgottenTakes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		at      time.Duration // when the take is forgotten
		forget  func(l *ledger)
		charged int
	}{
		{"at once, because of other keys", 0, (*ledger).flood, 80},
		{"after 11 s, because of other keys", 11 * time.Second, (*ledger).flood, 129},
		{"after 11 s, in a restart", 11 * time.Second, (*ledger).restart, 129},
		{"not after 11 s, with the same quota", 11 * time.Second, func(l *ledger) { l.SetQuota(perMinute(700, 700)) }, 80},
		{"not after 11 s, because the rate is raised", 11 * time.Second, func(l *ledger) { l.SetQuota(perMinute(900, 700)) }, 80},
		{"after 11 s, because the burst is lowered", 11 * time.Second, func(l *ledger) { l.SetQuota(perMinute(700, 650)) }, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger(t, perMinute(700, 700), config.PerKey)
			l.now = time.Minute
			l.take(200)
			l.now += tt.at
			tt.forget(l)
			l.now += time.Second
			if got := l.Settle("a", time.Minute, 200, 80); got != tt.charged {
				t.Errorf("%d charged, want %d", got, tt.charged)
			}
		})
	}
}

func perMinute(n, burst int) config.Quota {
	return config.Quota{Rate: config.Rate{Count: n, Period: time.Minute}, Burst: burst}
}

// flood takes tokens of many keys.
func (l *ledger) flood() {
	for i := range 2000 {
		key := fmt.Sprint(i)
		l.Take(key, l.Fingerprint(key), l.now, 1, 0, true)
	}
}

// restart restores a snapshot.
func (l *ledger) restart() {
	var b bytes.Buffer
	if err := errors.Join(l.Snapshot(&b), l.Restore(&b, l.now)); err != nil {
		panic(err)
	}
}
