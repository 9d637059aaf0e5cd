package servicetime

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	const second = time.Second
	for name, tt := range map[string]struct {
		play  func(p *Patience)
		least time.Duration
		most  time.Duration
	}{
		"nobody has left": {func(p *Patience) {
			for range 1000 {
				p.Stayed(second)
			}
		}, 0, 0},
		"two of two have left": {func(p *Patience) { p.Left(second); p.Left(second) }, 0, 0},
		"all leave at a second, also if others are served a moment before": {func(p *Patience) {
			for range 1000 {
				p.Stayed(990 * time.Millisecond)
				p.Left(second)
			}
		}, second, second},
		"a third has no patience": {func(p *Patience) {
			for range 1000 {
				p.Left(second / 10)
				p.Stayed(second)
				p.Stayed(second)
			}
		}, 0, 0},
		"two thirds have no patience": {func(p *Patience) {
			for range 1000 {
				p.Left(second / 10)
				p.Left(second / 10)
				p.Stayed(second)
			}
		}, second / 10, second / 10},
		"work ends between a half and three seconds, and callers leave at one": {func(p *Patience) {
			for i := range 1000 {
				if took := second/2 + time.Duration(i*7%1000)*second/400; took < second {
					p.Stayed(took)
				} else {
					p.Gone(took)
				}
			}
		}, second * 9 / 10, second * 14 / 10},
		"they have become patient": {func(p *Patience) {
			for range 1000 {
				p.Left(second)
			}
			for range 100 {
				p.Stayed(5 * second)
			}
		}, 0, 0},
		"they have lost their patience": {func(p *Patience) {
			for range 1000 {
				p.Left(10 * second)
				p.Stayed(9 * second)
			}
			for range 200 {
				p.Left(second)
			}
		}, second, second},
	} {
		var p Patience
		tt.play(&p)
		if got := p.Half(); got < tt.least-10*time.Microsecond || got > tt.most+10*time.Microsecond {
			t.Errorf("%s: %v: want %v to %v", name, got, tt.least, tt.most)
		}
	}
}

// Where some are served and others leave, half is the median of the patience.
func TestPatienceOfMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var p Patience
	sum := 0.0
	const n = 20_000
	for range n {
		patience, took := time.Duration(rng.ExpFloat64()*1e9), time.Duration(rng.ExpFloat64()*1e9)
		if took < patience {
			p.Stayed(took)
		} else {
			p.Left(patience)
		}
		sum += p.Half().Seconds()
	}
	if got, want := sum/n, math.Ln2; math.Abs(got-want) > 0.15 {
		t.Errorf("%.3f s on average: want the median, %.3f s", got, want)
	}
}
