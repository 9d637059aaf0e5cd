package pace_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/pace"
)

const s = time.Second

func parse(t testing.TB, text string) pace.Profile {
	t.Helper()
	p, err := pace.Parse(text)
	testrig.Must(t, err)
	return p
}

// first takes the first n arrivals, or fewer if there are no more.
func first(a *pace.Arrivals, n int) (at []time.Duration) {
	for range n {
		next, ok := a.Next()
		if !ok {
			break
		}
		at = append(at, next)
	}
	return at
}

// within counts the arrivals before an instant.
func within(a *pace.Arrivals, end time.Duration) (n int) {
	for {
		at, ok := a.Next()
		if !ok || at >= end {
			return n
		}
		n++
	}
}

func TestEven(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		profile string
		want    []time.Duration // of the first arrivals
		ends    bool            // there are no more
	}{
		{"the first request comes at the beginning, the others at k/rate", "4", []time.Duration{0, s / 4, s / 2, 3 * s / 4, s}, false},
		{"one a minute", "0.016666666666666666", []time.Duration{0, 60 * s, 120 * s}, false},
		{"a rate of zero offers nothing", "0", nil, true},
		{"what was begun at one rate is finished at the next", "1@2500ms,2", []time.Duration{0, s, 2 * s, 2750 * time.Millisecond, 3250 * time.Millisecond}, false},
		{"a pause only delays", "1@1500ms,0@10s,1", []time.Duration{0, s, 12 * s, 13 * s}, false},
		{"a profile that ends", "2@1s,0", []time.Duration{0, s / 2}, true},
		{"a ramp: Λ(t) = t²/2, so arrival k is at √(2k)", "0..10@10s", []time.Duration{0, 1414213562, 2 * s, 2449489743, 2828427125}, false},
		{"a ramp down: Λ(t) = 2t − t²/2 until, but not at, 2 s", "2..0@2s", []time.Duration{0, 585786438}, true},
	} {
		a := pace.Even(parse(t, tt.profile))
		got := first(a, len(tt.want))
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v: want %v", tt.rule, got, tt.want)
			continue
		}
		for i := range got {
			if d := got[i] - tt.want[i]; d < -1 || d > 1 {
				t.Errorf("%s: arrival %d at %v: want %v", tt.rule, i, got[i], tt.want[i])
			}
		}
		if next, ok := a.Next(); ok == tt.ends {
			t.Errorf("%s: another at %v: %v", tt.rule, next, ok)
		}
	}
}

// A constant rate does not drift: the rounding of one arrival is not carried
// to the next.
func TestNoDrift(t *testing.T) {
	a := pace.Even(pace.Constant(3))
	var at time.Duration
	for range 3_000_001 {
		at, _ = a.Next()
	}
	if at != 1_000_000*s {
		t.Errorf("arrival 3,000,000 at %v: want 1,000,000 s", at)
	}
}

func TestExtremes(t *testing.T) {
	if got := first(pace.Even(pace.Constant(1e9)), 4); got[3] != 3 {
		t.Errorf("a thousand million per second: %v: want one each nanosecond", got)
	}
	year := 365 * 24 * time.Hour
	if got := first(pace.Even(pace.Constant(1/year.Seconds())), 1000); len(got) != 293 {
		t.Errorf("one a year: %d arrivals: want 293, then time ends", len(got))
	}
}

// The count of an even process equals the integral, to within one.
func FuzzEvenCounts(f *testing.F) {
	f.Add(uint8(5), uint8(50), uint16(30), uint8(7))
	f.Add(uint8(0), uint8(0), uint16(1), uint8(0))
	f.Add(uint8(200), uint8(0), uint16(999), uint8(1))
	f.Fuzz(func(t *testing.T, from, to uint8, ms uint16, then uint8) {
		over := time.Duration(ms)*time.Millisecond + 1
		p := parse(t, fmt.Sprintf("%d..%d@%v", from, to, over))
		a := pace.Even(p)
		last := time.Duration(-1)
		for n := 0; n < 500; n++ {
			at, ok := a.Next()
			if !ok {
				return
			}
			if at < last {
				t.Fatalf("arrival %d at %v, after %v", n, at, last)
			}
			last = at
			// Λ(at) = n, to within the rounding of at to a nanosecond.
			x := min(at, over).Seconds()
			integral := float64(from)*x + (float64(to)-float64(from))/(2*over.Seconds())*x*x + float64(to)*max(at-over, 0).Seconds()
			if math.Abs(integral-float64(n)) > 1e-5 {
				t.Fatalf("%v: arrival %d at %v, where %v are expected", p, n, at, integral)
			}
		}
	})
}

// Counts of a Poisson process have the mean and the variance Λ.
func TestPoisson(t *testing.T) {
	const runs, mean = 4000, 50.0
	rng, ramp := rand.New(rand.NewPCG(1, 2)), parse(t, "0..10@10s")
	sum, squares := 0.0, 0.0
	for range runs {
		// 10 s of a ramp from 0 to 10: half of 100.
		n := float64(within(pace.Poisson(ramp, rng), 10*s))
		sum += n
		squares += n * n
	}
	m := sum / runs
	v := squares/runs - m*m
	// Five standard errors: of the mean √(Λ/runs), of the variance about Λ·√(2/runs).
	if math.Abs(m-mean) > 5*math.Sqrt(mean/runs) {
		t.Errorf("mean %v: want %v", m, mean)
	}
	if math.Abs(v-mean) > 5*mean*math.Sqrt(2.0/runs) {
		t.Errorf("variance %v: want %v", v, mean)
	}
}

func TestPoissonIsSeeded(t *testing.T) {
	run := func(seed uint64) []time.Duration {
		return first(pace.Poisson(pace.Constant(5), rand.New(rand.NewPCG(seed, 0))), 20)
	}
	a, b, c := run(1), run(1), run(2)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("arrival %d: %v and %v of the same seed", i, a[i], b[i])
		}
	}
	if a[0] == c[0] {
		t.Error("another seed gives the same arrivals")
	}
}

func TestRate(t *testing.T) {
	for text, rates := range map[string]map[time.Duration]float64{
		"5":               {0: 5, time.Hour: 5},
		"0.5":             {0: 0.5, time.Hour: 0.5},
		"10..20@10s":      {0: 10, 5 * s: 15, 10 * s: 20, time.Hour: 20},
		"5@10s, 20@30s,7": {0: 5, 10*s - 1: 5, 10 * s: 20, 40 * s: 7, time.Hour: 7},
		"1..3@1s,4":       {0: 1, s / 2: 2, s: 4, time.Hour: 4},
		"5@1s":            {s - 1: 5, s: 0},
	} {
		for at, want := range rates {
			if got := parse(t, text).Rate(at); got != want {
				t.Errorf("%s: rate at %v: %v: want %v", text, at, got, want)
			}
		}
	}
	if got := (pace.Profile{}).Rate(s); got != 0 {
		t.Errorf("rate of the zero Profile: %v", got)
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"": "want a rate", "x": "want a rate", "5..": "want a rate", "-3": "rate = -3: must be in [0, 1e+09]",
		"NaN": "rate = NaN", "Inf": "rate = +Inf", "5@": "is not a duration", "5@-1s": "is not a duration",
		"5@0s,3": "is not a duration", "5,3": "segment 1 has no duration", "5..6": "needs a duration",
	} {
		if _, err := pace.Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: want %q", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("5..50@30s,7")
	f.Add("0..0@1ns")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := pace.Parse(text)
		if err != nil {
			return
		}
		last := time.Duration(-1)
		for n, at := range first(pace.Even(p), 100) {
			if at < last || p.Validate() != nil {
				t.Fatalf("%q: arrival %d at %v, after %v", text, n, at, last)
			}
			last = at
		}
	})
}

func TestEnd(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": -1, "5..10@3s": -1, "5@1s,5": -1, "0": 0, "5@1s": time.Second, "5@1s,0": time.Second, "1..5@2s,5@1s": 3 * time.Second,
	} {
		p, err := pace.Parse(text)
		testrig.Must(t, err)
		end, ok := p.End()
		if !ok {
			end = -1
		}
		if end != want {
			t.Errorf("%s: %v: want %v", text, end, want)
		}
	}
}
