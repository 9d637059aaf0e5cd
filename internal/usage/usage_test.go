package usage_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/usage"
)

var histories = flag.Int("histories", 20_000, "random histories of TestSettlementsAreExact")

// A take is a take that an oracle knows; n changes when it is settled.
type take struct {
	at      time.Duration
	was, n  float64
	settled bool
}

// A bucket has a level and a Log, and an oracle knows all takes.
type bucket struct {
	rate, burst float64 // tokens a nanosecond, tokens
	groups      usage.Groups
	missing     float64
	at          time.Duration
	log         usage.Log
	takes       []take
}

func (b *bucket) refill(now time.Duration) {
	b.missing = max(b.missing-float64(now-b.at)*b.rate, 0)
	b.at = now
}

func (b *bucket) instant() usage.Instant {
	return usage.Instant{At: b.at, Came: float64(b.at) * b.rate, Size: b.burst}
}

// take takes n tokens if the bucket has them.
func (b *bucket) take(n float64) {
	if b.missing+n > b.burst {
		return
	}
	b.log.Take(b.instant(), n, b.missing == 0, b.groups)
	b.missing += n
	b.takes = append(b.takes, take{at: b.at, was: n, n: n})
}

// settle settles the take with index i, whose instant is known to a millisecond.
func (b *bucket) settle(i int, n float64) (charged float64) {
	t := &b.takes[i]
	t.n, t.settled = n, true
	back, charged := b.log.Settle(b.instant(), usage.Settlement{
		Was: t.was, N: n, At: t.at.Truncate(time.Millisecond), Missing: b.missing, Rate: b.rate,
	})
	b.missing -= back
	return charged
}

// oracle returns what a bucket lacks from which only the costs were taken.
func (b *bucket) oracle() (missing float64) {
	at := time.Duration(0)
	for _, t := range b.takes {
		missing = max(missing-float64(t.at-at)*b.rate, 0) + t.n
		at = t.at
	}
	return max(missing-float64(b.at-at)*b.rate, 0)
}

// After a settlement, a bucket is as one from which only the cost was taken at the instant of the
// grant: it never has more tokens, and fewer by the refill of a span and a millisecond at most.
func TestSettlementsAreExact(t *testing.T) { settleAll(t, 128) }

// If takes are forgotten, a bucket never has more tokens either, and says what the work has cost it then.
func TestForgottenTakes(t *testing.T) { settleAll(t, 2) }

func settleAll(t *testing.T, most int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 44))
	worst := 0.0
	for range *histories {
		b := &bucket{burst: float64(1 + chance.IntN(1000))}
		fill := time.Duration(math.Exp(chance.Float64()*10) * 1e7) // 10 ms to 4 min
		b.rate = b.burst / float64(fill)
		b.groups = usage.GroupsFor(fill, 64)
		b.groups.Most = most
		bound := b.rate*float64(b.groups.Span+usage.Grain) + 1e-6
		pause := float64(fill) * math.Exp(chance.Float64()*8-7)
		largest := 1 + chance.IntN(int(b.burst))
		var open []int
		lost := 0.0
		for range 2 + chance.IntN(40) {
			b.refill(b.at + time.Duration(chance.ExpFloat64()*pause*float64(chance.IntN(2))))
			if n := len(b.takes); chance.IntN(3) > 0 || len(open) == 0 {
				if b.take(float64(1 + chance.IntN(largest))); len(b.takes) > n {
					open = append(open, n)
				}
				continue
			}
			at := chance.IntN(len(open))
			i := open[at]
			open = append(open[:at], open[at+1:]...)
			n := float64(chance.IntN(int(b.takes[i].was) + 1))
			charged := b.settle(i, n)
			if charged < n || charged > b.takes[i].was || charged > n && most > 40 {
				t.Fatalf("%v charged for %v of %v", charged, n, b.takes[i].was)
			}
			lost += charged - n
			less := b.missing - b.oracle()
			worst = max(worst, less/(bound+lost))
			if less < -1e-6 || less > bound+lost {
				t.Fatalf("burst %v in %v: %v tokens less than the oracle has, want 0 to %v\n%+v", b.burst, fill, less, bound, b.takes)
			}
		}
	}
	t.Logf("at worst %.2f of the bound", worst)
}
