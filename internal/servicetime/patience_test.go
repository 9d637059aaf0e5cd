package servicetime

import (
	"math/rand/v2"
	"testing"
	"time"
)

// left has a caller leave by itself.
func left(p *Patience, age time.Duration) { p.Left(p.crowd.began+2*together, age) }

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
		"two of two have left": {func(p *Patience) { left(p, second); left(p, second) }, 0, 0},
		"all leave at a second, also if others are served a moment before": {func(p *Patience) {
			for range 1000 {
				p.Stayed(990 * time.Millisecond)
				left(p, second)
			}
		}, second, second},
		"a third has no patience": {func(p *Patience) {
			for range 1000 {
				left(p, second/10)
				p.Stayed(second)
				p.Stayed(second)
			}
		}, 0, 0},
		"nineteen of twenty have no patience": {func(p *Patience) {
			for range 1000 {
				for range 19 {
					left(p, second/10)
				}
				p.Stayed(second)
			}
		}, second / 10, second / 10},
		"two of three are no longer wanted at the ages at which others succeed": {func(p *Patience) {
			for i := range 1000 {
				age := second / 100 * time.Duration(1+i*7%10)
				p.Gone(0, age)
				p.Gone(0, age)
				p.Stayed(age)
			}
		}, 0, 0},
		"work ends between a half and three seconds, and callers leave at one": {func(p *Patience) {
			for i := range 1000 {
				if took := second/2 + time.Duration(i*7%1000)*second/400; took < second {
					p.Stayed(took)
				} else {
					p.Gone(0, took)
				}
			}
		}, second * 9 / 10, second * 14 / 10},
		"a client ends with all that it waits for": {func(p *Patience) {
			for i := range 100 {
				for j := range 32 {
					p.Left(time.Duration(i)*second, time.Duration(1+j)*20*time.Millisecond/32)
				}
				for j := range 100 {
					p.Stayed(time.Duration(1+j) * 10 * time.Millisecond / 100)
				}
			}
		}, 0, 0},
		"a client ends, and its work goes on": {func(p *Patience) {
			for i := range 100 {
				at := time.Duration(i) * second
				for j := range 4 {
					p.Left(at, time.Duration(1+j)*5*time.Millisecond)
				}
				for j := range 10 {
					p.Gone(at+time.Duration(1+j)*2*time.Millisecond, 45*time.Millisecond)
				}
				for range 20 {
					p.Stayed(30 * time.Millisecond)
				}
			}
		}, 0, 0},
		"work goes on whose callers came after a client ended": {func(p *Patience) {
			p.Left(0, second/100)
			p.Left(0, second/50)
			for i := range 100 {
				p.Gone(time.Duration(i+3)*second, second)
			}
		}, second, second},
		"clients had ended when their calls came": {func(p *Patience) {
			for i := range 100 {
				left(p, time.Duration(i)*time.Microsecond)
			}
		}, 0, 0},
		"callers that came together leave together": {func(p *Patience) {
			for range 30 {
				p.Left(second, second)
			}
			p.Stayed(second / 2)
		}, second, second},
		"they have become patient": {func(p *Patience) {
			for range 1000 {
				left(p, second)
			}
			for range 100 {
				p.Stayed(5 * second)
			}
		}, 0, 0},
		"they have lost their patience": {func(p *Patience) {
			for range 1000 {
				left(p, 10*second)
				p.Stayed(9 * second)
			}
			for range 200 {
				left(p, second)
			}
		}, second, second},
	} {
		var p Patience
		tt.play(&p)
		if got := p.Most(); got < tt.least-10*time.Microsecond || got > tt.most+10*time.Microsecond {
			t.Errorf("%s: %v: want %v to %v", name, got, tt.least, tt.most)
		}
	}
}

// Of callers that type on, five of six leave. By chance more do, but that is seldom taken for the
// patience of all.
func TestPatienceOfMost(t *testing.T) {
	known := 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var p Patience
		for range 1000 {
			if rng.IntN(6) > 0 {
				left(&p, 80*time.Millisecond+time.Duration(rng.Int64N(120e6)))
			} else {
				p.Stayed(300 * time.Millisecond)
			}
			if p.Most() > 0 {
				known++
			}
		}
	}
	if known > 2000 {
		t.Errorf("an estimate after %d of 100,000 callers: want 2,000 at most", known)
	}
}
