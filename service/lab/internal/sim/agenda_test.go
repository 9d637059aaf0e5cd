package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Events come in the order of their instants and, within one, of being scheduled.
func TestAgenda(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := newAgenda()
	var list []event
	pushed := int32(0)
	for range 20_000 {
		if rng.IntN(5) < 2 {
			at := time.Duration(rng.IntN(50))
			a.push(at, evFinish, pushed, 0)
			list = append(list, event{at: at, index: pushed})
			pushed++
			continue
		}
		until := time.Duration(rng.IntN(60))
		first := -1
		for i, e := range list {
			if e.at <= until && (first < 0 || e.at < list[first].at) {
				first = i
			}
		}
		got, ok := a.pop(until)
		if ok != (first >= 0) || ok && (got.index != list[first].index || got.kind() != evFinish) {
			t.Fatalf("%+v, %v: want %d of %v", got, ok, first, list)
		}
		if ok {
			list = append(list[:first], list[first+1:]...)
		}
	}
}

// Max-min fairness: no flow gets more than it asked for, the rest is shared by weight.
func TestFair(t *testing.T) {
	for _, tt := range []struct {
		rule             string
		offered, goodput []float64
		weights          []float64
		shares           []float64 // goodput / fair share
		jain             float64
	}{
		{"equal shares", []float64{90, 90}, []float64{30, 30}, []float64{1, 1}, []float64{1, 1}, 1},
		{"who asks for little gets it", []float64{200, 20}, []float64{80, 20}, []float64{1, 1}, []float64{1, 1}, 1},
		{"what he leaves goes to the others", []float64{200, 20, 200}, []float64{90, 20, 10}, []float64{1, 1, 1}, []float64{1.8, 1, 0.2}, 9.0 / (3 * 4.28)},
		{"by weight", []float64{200, 200}, []float64{75, 25}, []float64{3, 1}, []float64{1, 1}, 1},
		{"one has all", []float64{100, 100}, []float64{100, 0}, []float64{1, 1}, []float64{2, 0}, 0.5},
		{"nothing was done", []float64{100, 100}, []float64{0, 0}, []float64{1, 1}, []float64{0, 0}, 0},
	} {
		tenants := make([]Figures, len(tt.offered))
		for i := range tenants {
			tenants[i] = Figures{Offered: tt.offered[i], Goodput: tt.goodput[i]}
		}
		if jain := fair(tenants, tt.weights); math.Abs(jain-tt.jain) > 1e-9 {
			t.Errorf("%s: Jain's index %v: want %v", tt.rule, jain, tt.jain)
		}
		for i, want := range tt.shares {
			if got := tenants[i].FairShare; math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: tenant %d has %v of his share: want %v", tt.rule, i, got, want)
			}
		}
	}
}

// after is the inverse of active: the least instant at which the work is done.
func TestPause(t *testing.T) {
	for _, p := range []Pause{{}, {First: 3, For: 4}, {Every: 10, For: 2}, {First: 7, Every: 5, For: 4}, {First: 1, Every: 3, For: 1}} {
		works := func(at time.Duration) bool { // in [at, at+1)
			since := at - p.First
			if p.For == 0 || since < 0 {
				return true
			}
			if p.Every > 0 {
				since %= p.Every
			}
			return since >= p.For
		}
		for begin := range time.Duration(40) {
			end, done := begin, time.Duration(0)
			for work := range time.Duration(30) {
				for ; done < work; end++ {
					if works(end) {
						done++
					}
				}
				if got := p.after(begin, work); got != end {
					t.Fatalf("%+v: work of %d from %d ends at %d: want %d", p, work, begin, got, end)
				}
			}
		}
	}
	if got := (Pause{Every: 10, For: 2}).after(5, never); got != never {
		t.Errorf("endless work ends at %v", got)
	}
}
