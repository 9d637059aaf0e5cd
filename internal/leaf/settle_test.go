package leaf_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
)

var histories = flag.Int("histories", 2_000, "random histories of TestSettlementsAreExact")

// An event changes a leaf's bucket: a take, whose cost n changes when it is settled, or another
// assignment. An oracle knows them all.
type event struct {
	at      time.Duration
	was, n  int
	changed *leaf.Limit
}

// A ledger is a script with an oracle.
type ledger struct {
	*script
	events []event
	open   []int // takes that are not settled
	limit  leaf.Limit
}

// assign sets the assignment.
func (l *ledger) assign(a leaf.Limit) {
	l.limit = a
	l.exchange(assigned(leaf.Assignment{Key: "k", Rate: a.Rate, Burst: a.Burst, LimitRate: 1000, LimitBurst: 1000, Leaves: 1}))
	l.events = append(l.events, event{at: l.now, changed: &a})
}

func (l *ledger) take(n int) {
	if d, _ := l.set.Take(l.now, "k", n, l.policy); d.OK {
		l.open = append(l.open, len(l.events))
		l.events = append(l.events, event{at: l.now, was: n, n: n})
	}
}

// settle settles a take with a cost of at most what was taken.
func (l *ledger) settle(chance *rand.Rand) (charged, n int) {
	i := chance.IntN(len(l.open))
	e := &l.events[l.open[i]]
	l.open = append(l.open[:i], l.open[i+1:]...)
	e.n = chance.IntN(e.was + 1)
	return l.set.Settle(l.now, "k", e.at.Truncate(time.Millisecond), e.was, e.n), e.n
}

// tokens returns what the bucket has.
func (l *ledger) tokens() float64 {
	d, _ := l.set.Take(l.now, "k", 0, l.policy)
	return l.limit.Burst - d.ResetAfter.Seconds()*l.limit.Rate
}

// oracle returns what a bucket has from which only the costs were taken.
func (l *ledger) oracle() (tokens float64) {
	at, limit := time.Duration(0), leaf.Limit{}
	fill := func(to time.Duration) {
		tokens = min(tokens+limit.Rate*(to-at).Seconds(), limit.Burst)
		at = to
	}
	for _, e := range l.events {
		fill(e.at)
		if e.changed != nil {
			limit = *e.changed
			fill(e.at)
		}
		tokens -= float64(e.n)
	}
	fill(l.now)
	return tokens
}

func newLedger(t *testing.T, a leaf.Limit) *ledger {
	l := &ledger{script: newScript(t, leaf.Config{}, leaf.Policy{})}
	l.set.Take(0, "k", 1, l.policy) // makes the key known
	l.assign(a)
	return l
}

// After a settlement, the bucket of an assignment is as one from which only the true cost was taken at
// the instant of the grant, also if the assignment changes: it never has more tokens, and fewer by
// a 16th of the burst and the refill of a millisecond at most. (Nothing is said of tokens that were
// taken in the millisecond of the change.)
func TestSettlementsAreExact(t *testing.T) {
	for _, changes := range []bool{false, true} {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		chance := rand.New(rand.NewPCG(seed, 44))
		some := func() leaf.Limit {
			burst := float64(1 + chance.IntN(1000))
			return leaf.Limit{Rate: burst / math.Exp(chance.Float64()*6-3), Burst: burst} // full in 50 ms to 20 s
		}
		for range *histories {
			first := some()
			l := newLedger(t, first)
			rate, fill := first.Rate, first.Burst/first.Rate
			largest := 1 + chance.IntN(int(first.Burst))
			for range 2 + chance.IntN(30) {
				l.now += time.Duration(min(chance.ExpFloat64()*fill/8, 3) * float64(chance.IntN(2)) * 1e9)
				l.tokens() // the key is in use
				if changes && chance.IntN(4) == 0 {
					a := some()
					rate, fill = max(rate, a.Rate), max(fill, a.Burst/a.Rate)
					l.now += time.Millisecond
					l.assign(a)
					l.now += time.Millisecond
				} else {
					l.assign(l.limit) // the lease goes on
				}
				if len(l.open) == 0 || chance.IntN(3) > 0 {
					l.take(1 + chance.IntN(min(largest, int(l.limit.Burst)))) // more would make the bucket larger
					continue
				}
				before := l.tokens()
				charged, n := l.settle(chance)
				bound := rate*(max(fill/16, 0.001)+0.001) + 1e-3
				less := l.oracle() - l.tokens()
				if less < -1e-3 || less > bound && charged == n || l.tokens() < before-1e-3 {
					t.Fatalf("assignments change %t, %+v: %d charged for %d: %v tokens less than the oracle has, want 0 to %v\n%+v", changes, l.limit, charged, n, less, bound, l.events)
				}
			}
		}
	}
}

// The examples of a partial settlement.
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
			l := newLedger(t, leaf.Limit{Rate: 700. / 60, Burst: 700})
			wait := func(d time.Duration) {
				for range d / time.Second {
					l.now += time.Second
					l.assign(l.limit)
				}
			}
			wait(time.Minute)
			began := l.now
			for range tt.calls {
				l.take(tt.was)
			}
			wait(tt.after)
			charged := 0
			for range tt.calls {
				charged += l.set.Settle(l.now, "k", began, tt.was, tt.n)
			}
			if left := l.tokens(); charged != tt.calls*tt.n || math.Abs(left-tt.left) > 1e-3 {
				t.Errorf("%d charged, %v are left: want %d and %v", charged, left, tt.calls*tt.n, tt.left)
			}
		})
	}
}
