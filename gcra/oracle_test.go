package gcra_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// A dumb is a token bucket in exact rational numbers: it counts tokens, and
// refills them when time passes.
type dumb struct {
	perNs  *big.Rat // tokens a nanosecond
	burst  int64
	tokens *big.Rat
	last   time.Duration
}

func newDumb(count int64, period time.Duration, burst int64) *dumb {
	return &dumb{perNs: big.NewRat(count, int64(period)), burst: burst, tokens: big.NewRat(burst, 1)}
}

func (d *dumb) refill(now time.Duration) {
	d.tokens.Add(d.tokens, new(big.Rat).Mul(d.perNs, big.NewRat(int64(now-d.last), 1)))
	if d.tokens.Cmp(big.NewRat(d.burst, 1)) > 0 {
		d.tokens.SetInt64(d.burst)
	}
	d.last = now
}

// lack returns how many nanoseconds are missing until n tokens can be taken;
// less than zero: for how many they have been there.
func (d *dumb) lack(n int64) float64 {
	ns, _ := new(big.Rat).Quo(new(big.Rat).Sub(big.NewRat(n, 1), d.tokens), d.perNs).Float64()
	return ns
}

func (d *dumb) add(n int64) { d.tokens.Add(d.tokens, big.NewRat(n, 1)) }

// The same random life for the bucket and for the dumb one. Where they differ,
// the instants at which they would agree are no farther apart than promised.
func FuzzOracle(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, 1+seed*7, uint64(time.Second), uint32(5))
	}
	f.Add(uint64(1), uint64(1), uint64(365*24*time.Hour), uint32(1))
	f.Add(uint64(1), uint64(1), uint64(24*time.Hour), uint32(1000))
	f.Add(uint64(1), uint64(999999937), uint64(time.Second), uint32(1))
	f.Add(uint64(1), uint64(3e9), uint64(time.Second), uint32(64))
	f.Add(uint64(1), uint64(1e12), uint64(time.Second), uint32(1<<20))
	f.Add(uint64(1), uint64(2), uint64(3), uint32(7))
	f.Fuzz(func(t *testing.T, seed, count, period uint64, size uint32) {
		count, period = 1+count%1e12, 1+period%uint64(400*24*time.Hour)
		burst := int(size % (1 << 24))
		if count/period > 1<<20 {
			return
		}
		q := gcra.Per(int(count), time.Duration(period), burst)
		o := newDumb(int64(count), time.Duration(period), int64(burst))
		chance := rand.New(rand.NewPCG(seed, 1))
		now := time.Duration(chance.Int64N(1 << 60))
		o.last = now
		interval := float64(period) / float64(count)
		if float64(burst)*interval > 0x1p60 {
			return // decades to refill
		}
		// What the two may differ by, in nanoseconds: one as promised, and one
		// more where the instant itself is rounded up to a whole one.
		// Above 4 tokens a nanosecond a cost is rounded up, op by op.
		early, late := 1.0, 2.0
		if interval <= 0.25 {
			late += 0.5 * 300
		}
		if exact(count, period) {
			early, late = 0, 1
		}
		early, late = early+1e-6, late+1e-6
		var b gcra.Bucket
		for range 300 {
			if chance.IntN(3) > 0 {
				now += time.Duration(chance.Float64() * 2 * interval * float64(1+chance.IntN(3)))
			}
			if now > gcra.MaxNow/2 {
				return
			}
			o.refill(now)
			n := chance.IntN(burst + 1)
			if chance.IntN(2) == 0 {
				n = min(1, burst)
			}
			lack := o.lack(int64(n))
			if lack > 0x1p57 {
				return // four years of debt
			}
			early, late := early+math.Abs(lack)*0x1p-51, late+math.Abs(lack)*0x1p-51 // lack is a float
			switch chance.IntN(4) {
			case 0: // take, and let the dumb one follow where the doubt is small
				next, d := q.Take(b, now, n)
				if d.OK && lack > early || !d.OK && lack < -late+1 {
					t.Fatalf("%v: %d at %v: %+v, but lacks %g ns", q, n, now, d, lack)
				}
				if !d.OK && n > 0 {
					if _, soon := q.Take(b, now+d.RetryAfter-1, n); soon.OK {
						t.Fatalf("%v: %+v: allowed a nanosecond sooner", q, d)
					}
					if _, then := q.Take(b, now+d.RetryAfter, n); !then.OK {
						t.Fatalf("%v: %+v: denied after that", q, d)
					}
				}
				if next > q.Level(now+d.ResetAfter) || d.ResetAfter > 0 && next <= q.Level(now+d.ResetAfter-2) {
					t.Fatalf("%v: %+v: not full just then", q, d)
				}
				if b = next; d.OK {
					o.add(int64(-n))
				}
			case 1, 2: // reserve
				next, wait, ok := q.Reserve(b, now, n, weir.Never)
				if !ok || float64(wait) < max(lack, 0)-early || float64(wait) > max(lack, 0)+late {
					t.Fatalf("%v: reserve %d at %v: %v, %v, but lacks %g ns", q, n, now, wait, ok, lack)
				}
				b = next
				o.add(int64(-n))
			case 3: // give back
				if tokens := q.Tokens(b, now); q.Rate() < 1e9 && math.Abs(tokens+lack/interval-float64(n)) > 1e-4*float64(burst)+2/interval {
					t.Fatalf("%v: %v tokens, but lacks %g ns for %d", q, tokens, lack, n)
				}
				if n := min(n, int(max(0, float64(burst)-q.Tokens(b, now)))); interval > 0.25 {
					b = q.Refund(b, n)
					o.add(int64(n))
				}
			}
		}
	})
}

// exact reports whether a Quota promises exact decisions.
func exact(count, period uint64) bool {
	r := new(big.Rat).SetFrac(new(big.Int).SetUint64(count), new(big.Int).SetUint64(period))
	return r.Num().Cmp(big.NewInt(3)) <= 0
}

// However it is asked, in any window of time no more is taken than the burst
// and what comes in during the window.
func FuzzWindow(f *testing.F) {
	f.Add(uint64(1), uint32(10), uint32(3))
	f.Add(uint64(2), uint32(425), uint32(1))
	f.Add(uint64(3), uint32(1e8), uint32(20))
	f.Fuzz(func(t *testing.T, seed uint64, rate, size uint32) {
		rate, burst := max(rate, 1), int(1+size%100)
		q := gcra.Per(int(rate), time.Second, burst)
		chance := rand.New(rand.NewPCG(seed, 2))
		lag := float64(seed % 2) // in intervals
		type event struct {
			at time.Duration
			n  int
		}
		var taken []event
		var b gcra.Bucket
		now := start
		interval := 1e9 / float64(rate)
		for range 200 {
			at := now - time.Duration(chance.Float64()*lag*interval) // some clocks lag
			n := 1 + chance.IntN(burst)
			var ok bool
			if b, ok = q.Allow(b, at, n); ok {
				taken = append(taken, event{now, n})
			}
			now += time.Duration(chance.Float64() * 3 * interval)
		}
		for i := range taken {
			sum := 0
			for _, e := range taken[i:] {
				sum += e.n
				if most := float64(burst) + float64(e.at-taken[i].at+1)/interval + lag; float64(sum) > most {
					t.Fatalf("%v: %d in %v: want at most %v", q, sum, e.at-taken[i].at, most)
				}
			}
		}
	})
}

// A token is never rounded away, nor one made, whatever the rate: a year's
// worth, taken day by day, takes a year.
func TestNoDrift(t *testing.T) {
	for name, q := range quotas {
		if q.Rate() == 0 || q.Burst() > 1<<30 || q.Rate() > 4e9 {
			continue
		}
		b, _, _ := q.Reserve(0, start, q.Burst(), 0)
		total := 0.0
		for range 365 {
			n := int(q.Rate() * 86400)
			b, _ = q.Charge(b, start, n, math.MaxInt)
			total += float64(n)
		}
		ends := ready(&q, b, start)
		if want := total / q.Rate() * 1e9; math.Abs(float64(ends)-want) > 2+want*0x1p-50 {
			t.Errorf("%s: %g tokens take %v: want %v", name, total, ends, time.Duration(want))
		}
	}
}

// Rates in float64 and as a fraction are the same where both can be written.
func TestPerSecond(t *testing.T) {
	for _, tt := range []struct {
		rate   float64
		count  int
		period time.Duration
	}{
		{10, 10, time.Second}, {0.1, 1, 10 * time.Second}, {1 / (3 * time.Nanosecond).Seconds(), 1, 3},
		{5.0 / 60, 5, time.Minute}, {1e9, 1, 1}, {425, 425, time.Second}, {1.0 / 86400, 1, 24 * time.Hour},
		{1e18, 1e9, 1}, {1e200, 1e9, 1}, {1e-300, 0, 1},
	} {
		if got, want := gcra.PerSecond(tt.rate, 7), gcra.Per(tt.count, tt.period, 7); got != want {
			t.Errorf("%g/s: %+v: want %+v", tt.rate, got, want)
		}
	}
	for _, rate := range []float64{math.Pi, 1e9 / 7, 0.7692307692307693, 1e-5 * math.E, 1.5e9, 1e10 * math.Pi} {
		q := gcra.PerSecond(rate, 1000)
		b, _, _ := q.Reserve(0, start, 1000, 0)
		n := int(rate * 86400)
		b, _ = q.Charge(b, start, n, math.MaxInt)
		if got, want := ready(&q, b, start).Seconds(), float64(n)/rate; math.Abs(got-want) > 2e-9+want*1e-12 {
			t.Errorf("%g/s: %d tokens take %v s: want %v", rate, n, got, want)
		}
	}
}
