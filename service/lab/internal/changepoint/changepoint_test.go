package changepoint

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// draws returns counts with a mean that changes at an instant.
func draws(rng *rand.Rand, n, at int, before, after float64) (all []float64) {
	for i := range n {
		mean := before
		if i >= at {
			mean = after
		}
		// Arrivals of a Poisson process within a span.
		k, sum := 0.0, rng.ExpFloat64()
		for sum < mean {
			k, sum = k+1, sum+rng.ExpFloat64()
		}
		all = append(all, k)
	}
	return all
}

// The divisions of PELT are the best of all divisions.
func TestSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		s := Counts(draws(rng, 40, rng.IntN(40), 5, 12))
		n := len(s.x)
		penalty := 4 * math.Log(float64(n)+1)
		best, last := make([]float64, n+1), make([]int, n+1)
		best[0] = -penalty
		for to := 1; to <= n; to++ {
			best[to] = math.Inf(1)
			for from := range to {
				if c := best[from] + s.cost(from, to) + penalty; c < best[to] {
					best[to], last[to] = c, from
				}
			}
		}
		want := []int{n}
		for to := n; to > 0; to = last[to] {
			want = append(want, last[to])
		}
		slices.Reverse(want)
		if got := s.Segments(); !slices.Equal(got, want) {
			t.Errorf("%v: want %v", got, want)
		}
	}
}

// A change is within its interval at least 9 times of 10, and is never taken for chance.
func TestStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const runs, at = 200, 60
	within := 0
	for range runs {
		st, ok := Counts(draws(rng, 120, at, 10, 16)).step(0, 120)
		if !ok || st.Chance > 1e-6 || st.After < 1.3*st.Before {
			t.Fatalf("%+v", st)
		}
		if st.Low <= at && at <= st.High {
			within++
		}
	}
	if 10*within < 9*runs {
		t.Errorf("%d of %d within the interval", within, runs)
	}
}

// Without a change, a step is seldom taken for more than chance.
func TestNoStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const runs = 400
	wrong := 0
	for range runs {
		ns := draws(rng, 100, 0, 3, 3)
		all := make([]Sample, len(ns))
		for i := range all {
			for range 3 {
				all[i].Add(rng.NormFloat64())
			}
		}
		for _, s := range []*Series{Counts(ns), Shares(draws(rng, 100, 0, 1, 1), slices.Repeat([]float64{30}, 100)), Means(all)} {
			if st, ok := s.step(0, 100); ok && st.Chance < 0.01 {
				wrong++
			}
		}
	}
	if wrong > 3*runs*2/100 {
		t.Errorf("%d of %d", wrong, 3*runs)
	}
}

// What gets worse later does not hide when it began.
func TestOnset(t *testing.T) {
	all := make([]Sample, 100)
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range all {
		level := 0.0
		if i >= 40 {
			level = 2
		}
		if i >= 60 {
			level = 5
		}
		for range 5 {
			all[i].Add(level + 0.3*rng.NormFloat64())
		}
	}
	s := Means(all)
	if st, _ := s.step(0, 100); st.At != 60 {
		t.Errorf("%+v", st)
	}
	if st, ok := s.Onset(0, 100); !ok || st.At != 40 {
		t.Errorf("%+v", st)
	}
}
