package shedder_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/shedder"
)

const step = 500 * time.Millisecond

// A host is processors on which the pressure is the probability that more work is ready than
// there are processors (Erlang's formula).
type host struct {
	cores   int
	now     time.Duration
	stalled time.Duration
	load    float64 // of neighbours, in processors
}

// run runs work that takes some processors for one step, and counts the pressure.
func (h *host) run(work float64) (pressure float64) {
	busy := (work + h.load) / float64(h.cores)
	pressure = 1
	if busy < 1 {
		b := 1.0 // Erlang B, by its recursion
		for i := 1; i <= h.cores; i++ {
			b = busy * float64(h.cores) * b / (float64(i) + busy*float64(h.cores)*b)
		}
		pressure = b / (1 - busy*(1-b)) * busy
	}
	h.now += step
	h.stalled += time.Duration(pressure * float64(step))
	return pressure
}

// A mix is requests per step of each level.
type mix [4]int

func (m mix) sum() int { return m[0] + m[1] + m[2] + m[3] }

// offer offers the requests of a step, in turns, and returns the admitted ones by level.
func offer(s *shedder.Shedder, m mix) (admitted mix) {
	left := m
	for left.sum() > 0 {
		for l := range left {
			if left[l] > 0 {
				left[l]--
				if !s.Active() || s.Admit(shedder.Level(l)) {
					admitted[l]++
				}
			}
		}
	}
	return admitted
}

// An overload is shed, the least important requests first, until the pressure is at its bound,
// and all pass again afterwards.
func TestShedsTheLeastImportantFirst(t *testing.T) {
	for _, cores := range []int{1, 2, 8, 64} {
		for _, m := range []mix{{100, 100, 200, 20}, {0, 0, 400, 0}, {400, 0, 0, 0}, {10, 0, 390, 0}, {0, 200, 0, 200}} {
			h, s := host{cores: cores}, shedder.New(0.4, 0.5)
			per := 1.5 * float64(cores) / float64(m.sum()) // each request's part of an overload of 1.5
			mean, n := 0.0, 0
			var last mix
			for i := range 240 {
				last = offer(s, m)
				p := h.run(float64(last.sum()) * per)
				s.Read(h.now, h.stalled)
				if i >= 120 {
					mean, n = mean+p, n+1
				}
			}
			bound := (0.95*float64(m[0]+m[1]) + 0.5*float64(m[2])) / float64(m.sum())
			if mean /= float64(n); mean < 0.3 || mean > 0.5 && s.Shed() < bound-1e-9 {
				t.Errorf("%d cores, %v: pressure %.2f, sheds %.2f: want 0.4, or to shed %.2f", cores, m, mean, s.Shed(), bound)
			}
			if last[3] != m[3] {
				t.Errorf("%d cores, %v: admitted %v: a request of the highest level is rejected", cores, m, last)
			}
			for l := range 2 { // what is more important is rejected only if most of the rest is
				if last[l+1] < m[l+1]-1 && float64(last[l]) > 0.1*float64(m[l])+1 {
					t.Errorf("%d cores, %v: admitted %v", cores, m, last)
				}
			}
			for range 40 {
				h.run(0.2 * float64(offer(s, m).sum()) * per)
				s.Read(h.now, h.stalled)
			}
			if s.Shed() != 0 || s.Active() {
				t.Errorf("%d cores, %v: sheds %.2f after the overload", cores, m, s.Shed())
			}
		}
	}
}

// Pressure that does not depend on the requests is not fought with critical requests: after a
// trial they pass, and later trials become rare. Sheddable work goes on yielding, but for one
// request of twenty.
func TestNeighbours(t *testing.T) {
	for _, m := range []mix{{0, 0, 100, 0}, {100, 0, 0, 0}, {10, 10, 70, 10}, {0, 0, 0, 100}} {
		h, s := host{cores: 2, load: 8}, shedder.New(0.4, 0.5)
		offered, admitted := mix{}, mix{}
		for i := range 7200 {
			got := offer(s, m)
			if 2*got[2] < m[2]-1 {
				t.Fatalf("%v: admitted %v: want half of the critical requests", m, got)
			}
			h.run(0)
			s.Read(h.now, h.stalled)
			for l := range m {
				if i > 20 {
					offered[l], admitted[l] = offered[l]+m[l], admitted[l]+got[l]
				}
			}
		}
		for l, least := range []float64{0.04, 0.04, 0.98, 1} {
			if part := float64(admitted[l]) / float64(offered[l]); offered[l] > 0 && (part < least || l < 2 && part > 0.06) {
				t.Errorf("%v: in an hour, %.3f of level %d are admitted: want %v", m, part, l, least)
			}
		}
	}
}

// After neighbours have used the processors, an overload of its own is shed again.
func TestAfterNeighbours(t *testing.T) {
	h, s := host{cores: 4, load: 12}, shedder.New(0.4, 0.5)
	m := mix{0, 0, 400, 0}
	for range 600 {
		offer(s, m)
		h.run(0)
		s.Read(h.now, h.stalled)
	}
	h.load = 0
	for range 60 {
		h.run(float64(offer(s, m).sum()) * 0.2 / 100)
		s.Read(h.now, h.stalled)
	}
	mean := 0.0
	for range 2000 {
		p := h.run(float64(offer(s, m).sum()) * 1.4 / 100)
		s.Read(h.now, h.stalled)
		mean += p / 2000
	}
	if math.Abs(mean-0.4) > 0.1 {
		t.Errorf("pressure %.2f: want 0.4", mean)
	}
}

// Several processes on one host, which do not read at the same time, together keep the pressure
// at its bound, and reject about the same part each.
func TestManyOnOneHost(t *testing.T) {
	const processes = 8
	h := host{cores: 4}
	all := make([]*shedder.Shedder, processes)
	for i := range all {
		all[i] = shedder.New(0.4, 0.5)
	}
	m := mix{50, 0, 150, 0}
	per := 1.4 * float64(h.cores) / float64(processes*m.sum())
	mean, least, most := 0.0, 1.0, 0.0
	const steps = 400
	for i := range steps {
		admitted := 0
		for j, s := range all {
			if (i+j)%2 == 0 { // half of them see only every second instant
				s.Read(h.now, h.stalled)
			}
			admitted += offer(s, m).sum()
		}
		p := h.run(float64(admitted) * per)
		if i >= steps/2 {
			mean += p / (steps / 2)
		}
	}
	for _, s := range all {
		least, most = min(least, s.Shed()), max(most, s.Shed())
	}
	if math.Abs(mean-0.4) > 0.1 || most-least > 0.15 {
		t.Errorf("pressure %.2f, each sheds %.2f to %.2f: want 0.4 and the same part", mean, least, most)
	}
}

// Readings that are missing, repeated, reset or far apart change little.
func TestOddReadings(t *testing.T) {
	s := shedder.New(0.4, 0.5)
	s.Read(0, time.Hour)
	s.Read(step, time.Hour+step) // full pressure
	if s.Pressure() != 1 || math.Abs(s.Shed()-0.05) > 1e-9 {
		t.Errorf("pressure %v, sheds %v: want 1, 0.05", s.Pressure(), s.Shed())
	}
	was := s.Shed()
	s.Read(step, 2*time.Hour)
	s.Read(0, 3*time.Hour) // time does not go back
	if s.Shed() != was {
		t.Errorf("sheds %v after readings of the same instant: want %v", s.Shed(), was)
	}
	s.Read(2*step, time.Second) // a new count
	if s.Shed() != was {
		t.Errorf("sheds %v after a reset: want %v", s.Shed(), was)
	}
	s.Read(2*step+time.Hour, time.Second+time.Hour) // an hour of full pressure without requests
	if s.Shed() > was+0.21 {
		t.Errorf("sheds %v after an hour: want at most %v", s.Shed(), was+0.2)
	}
	for i := range 20 {
		s.Lost(2*step + time.Hour + time.Duration(i)*time.Second)
	}
	if s.Shed() != 0 || s.Pressure() != 0 {
		t.Errorf("sheds %v without readings: want 0", s.Shed())
	}
}

// Without a level of critical requests to reject, only sheddable ones are.
func TestOnlySheddable(t *testing.T) {
	h, s := host{cores: 1, load: 2}, shedder.New(0.2, 0)
	m := mix{20, 20, 60, 0}
	var last mix
	for range 200 {
		last = offer(s, m)
		h.run(0)
		s.Read(h.now, h.stalled)
	}
	if last[2] != 60 || last[0] > 2 || last[1] > 2 || s.Shed() > 0.4 {
		t.Errorf("admitted %v: want all critical requests", last)
	}
}

// Whatever the readings, the rejected part stays within its bounds.
func FuzzShedder(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		most := r.Float64()
		s := shedder.New(0.01+0.98*r.Float64(), most)
		now, stalled := time.Duration(0), time.Duration(0)
		for range 300 {
			now += time.Duration(r.Int64N(int64(3*time.Second))) - 100*time.Millisecond
			stalled += time.Duration(r.Int64N(int64(4*time.Second))) - 200*time.Millisecond
			if r.IntN(20) == 0 {
				s.Lost(now)
			} else {
				s.Read(now, stalled)
			}
			m := mix{r.IntN(30), r.IntN(30), r.IntN(30), r.IntN(30)}
			got := offer(s, m)
			if got[3] != m[3] || float64(m[2]-got[2]) > most*float64(m[2])+1 || m[0] > 25 && got[0] == 0 {
				t.Fatalf("of %v, %v are admitted", m, got)
			}
			if !(s.Shed() >= 0 && s.Shed() <= shedder.MostSheddable && s.Pressure() >= 0 && s.Pressure() <= 1) {
				t.Fatalf("sheds %v at a pressure of %v", s.Shed(), s.Pressure())
			}
		}
	})
}
