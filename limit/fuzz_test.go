package limit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// oracle is AIMD from its rules, without floating point: the backoff is in eighths.
type oracle struct {
	limit, min, max, eighths int
	slow                     time.Duration

	good int           // successes that count, since the limit moved or should have
	fell time.Duration // when it last moved down, or should have
}

func (o *oracle) observe(s limit.Sample) {
	early := s.Start < o.fell
	late := o.slow > 0 && s.End > s.Start+o.slow
	if early || s.Outcome == ignored {
		return
	}
	if s.Outcome == dropped || late {
		o.limit, o.good, o.fell = max(o.limit*o.eighths/8, o.min), 0, s.End
		return
	}
	if s.Inflight+s.Inflight >= o.limit && o.limit < o.max {
		o.good++
	}
	if o.good == o.limit {
		o.limit, o.good = o.limit+1, 0
	}
}

// Whatever happens: the limit is the oracle's, stays within its bounds, grows
// by one at a time, never falls twice within a round trip, and says why.
func FuzzAIMD(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, uint8(4), uint8(6))
	f.Add([]byte{2, 2, 2, 2, 0, 0, 0, 0, 2, 0, 2}, uint8(9), uint8(0))
	for seed := range uint64(50) { // so that each run of the tests is a little fuzzing
		f.Add(noise(seed, 1000), uint8(seed*29), uint8(seed*13))
	}
	f.Fuzz(func(t *testing.T, events []byte, initial, eighths uint8) {
		o := oracle{limit: 3 + int(initial)%6, min: 3, max: 8, eighths: 1 + int(eighths)%7, slow: at(12), fell: -1}
		a, err := limit.NewAIMD(limit.Config{Initial: o.limit, Min: o.min, Max: o.max, MaxHealthyLatency: o.slow}, float64(o.eighths)/8)
		testrig.Must(t, err)
		now, fell := time.Duration(0), time.Duration(-1)
		for ; len(events) >= 2; events = events[2:] {
			s := sample(&now, events[0], events[1])
			was := a.Limit()
			cause := a.Observe(s)
			is := a.Limit()
			o.observe(s)
			bad := cause == limit.Dropped && s.Outcome == dropped || cause == limit.Slow && s.Outcome == ok
			switch {
			case is != o.limit:
				t.Fatalf("limit %d to %d after %+v: the oracle says %d", was, is, s, o.limit)
			case is < o.min || is > o.max:
				t.Fatalf("limit %d: out of bounds", is)
			case is == was && cause != limit.Kept,
				is > was && (is != was+1 || cause != limit.Grown),
				is < was && (s.Start < fell || !bad):
				t.Fatalf("limit %d to %d after %+v, %v: it had fallen at %v", was, is, s, cause, fell)
			}
			if is < was {
				fell = now
			}
		}
	})
}

// sample makes a sample of two bytes: mostly successes, of work that mostly
// started after the last sample ended.
func sample(now *time.Duration, x, y byte) limit.Sample {
	*now += at(int(x & 3))
	outcome := weir.Success
	switch x >> 2 & 15 {
	case 0:
		outcome = dropped
	case 1:
		outcome = ignored
	}
	return limit.Sample{Start: max(*now-at(int(y&15)>>(x>>6)), 0), End: *now, Inflight: 1 + int(y>>4), Outcome: outcome}
}

// noise returns n random bytes.
func noise(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	events := make([]byte, n)
	for i := range events {
		events[i] = byte(rng.Uint32())
	}
	return events
}

// baseline makes one of the published algorithms, with bounds.
func baseline(t *testing.T, which uint8, least, most int) (a limit.Algorithm) {
	t.Helper()
	var err error
	cfg := limit.Config{Min: least, Max: most}
	if which&1 == 0 {
		a, err = limit.NewVegas(cfg)
	} else {
		a, err = limit.NewGradient2(cfg)
	}
	testrig.Must(t, err)
	return a
}

// Whatever happens: the limit stays within its bounds, moves as it says, and
// moves alike under equal samples.
func FuzzBaselines(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(noise(seed, 1000), uint8(seed*37), uint16(seed), uint16(seed*seed))
	}
	f.Add(noise(1, 1000), uint8(4), uint16(0), uint16(math.MaxUint16)) // the largest limit there is
	f.Add(noise(1, 1000), uint8(5), uint16(0), uint16(math.MaxUint16))
	f.Fuzz(func(t *testing.T, events []byte, which uint8, least, span uint16) {
		lo := 1 + int(least)
		hi := lo + int(span)
		if span == math.MaxUint16 {
			lo, hi = math.MaxInt-9, math.MaxInt
		}
		a, b := baseline(t, which, lo, hi), baseline(t, which, lo, hi)
		now := time.Duration(0)
		for ; len(events) >= 3; events = events[3:] {
			s := sample(&now, events[0], events[1])
			s.Outcome = weir.Outcome(events[2] & 7) // some are unknown
			if s.Start -= time.Duration(events[2]) * time.Millisecond; events[2] > 128 {
				s.Inflight = a.Limit()
			}
			was := a.Limit()
			cause := a.Observe(s)
			is := a.Limit()
			if again := b.Observe(s); again != cause || b.Limit() != is {
				t.Fatalf("limit %d, %v, but also %d, %v", is, cause, b.Limit(), again)
			}
			if is < lo || is > hi {
				t.Fatalf("limit %d after %+v: not in [%d, %d]", is, s, lo, hi)
			}
			if is == was != (cause == limit.Kept) || is > was != (cause == limit.Grown) {
				t.Fatalf("limit %d to %d after %+v: %v", was, is, s, cause)
			}
			if is < was && cause != limit.Queue && (cause != limit.Dropped || which&1 != 0) {
				t.Fatalf("limit %d to %d after %+v: %v", was, is, s, cause)
			}
		}
	})
}

// Whatever happens, and whatever the wall clock shows: the limit stays within
// its bounds, moves as it says, and moves alike under equal samples.
func FuzzAuto(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(noise(seed, 4000), uint16(seed*seed), uint16(seed*97), int64(seed*seed*0x9e3779b97f4a7c15), uint8(seed*17))
	}
	f.Add(noise(1, 1000), uint16(0), uint16(math.MaxUint16), int64(math.MaxInt64), uint8(0))
	f.Add(noise(1, 1000), uint16(0), uint16(0), int64(math.MinInt64), uint8(1))
	f.Fuzz(func(t *testing.T, events []byte, least, span uint16, epoch int64, pace uint8) {
		cfg := limit.Config{Min: 1 + int(least), Max: 1 + int(least) + int(span), MaxHealthyLatency: time.Duration(pace&3) * time.Second}
		a, b := auto(t, cfg), auto(t, cfg)
		a.SetEpoch(time.Duration(epoch))
		b.SetEpoch(time.Duration(epoch))
		now := time.Duration(0)
		for ; len(events) >= 3; events = events[3:] {
			s := sample(&now, events[0], events[1])
			s.Start, s.End = s.Start>>(pace>>3), s.End>>(pace>>3) // from seconds to nanoseconds
			s.Outcome = weir.Outcome(events[2] & 7)               // some are unknown
			if events[2] > 64 {
				s.Outcome = ok
			}
			if events[2]&8 != 0 {
				s.Inflight = a.Limit()
			}
			if events[2]&16 != 0 {
				s.N, s.Waited = int(events[1]&3), at(int(events[1]&7))
			}
			was := a.Limit()
			cause := a.Observe(s)
			is := a.Limit()
			if again := b.Observe(s); again != cause || b.Limit() != is {
				t.Fatalf("limit %d, %v, but also %d, %v", is, cause, b.Limit(), again)
			}
			if is < cfg.Min || is > cfg.Max {
				t.Fatalf("limit %d after %+v: not in [%d, %d]", is, s, cfg.Min, cfg.Max)
			}
			if is == was != (cause == limit.Kept) {
				t.Fatalf("limit %d to %d after %+v: %v", was, is, s, cause)
			}
		}
	})
}
