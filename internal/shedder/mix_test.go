package shedder_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/internal/shedder"
)

// Before a Shedder has seen requests, it does not know their mix. It then rejects no more than
// the part that a reading allows, whatever the mix turns out to be, and no critical request.
func TestUnknownMix(t *testing.T) {
	for _, m := range []mix{{400, 0, 0, 0}, {0, 400, 0, 0}, {200, 200, 0, 0}, {100, 100, 200, 20}, {0, 0, 400, 0}} {
		s := shedder.New(0.4, 0.5)
		s.Read(0, 0)
		offer(s, m)        // not seen, for there is no pressure
		s.Read(step, step) // full pressure
		got := offer(s, m)
		rejected := m.sum() - got.sum()
		if most := int(s.Shed()*float64(m.sum())) + 1; rejected > most || got[2] != m[2] || m[2]+m[3] == 0 && rejected < most-2 {
			t.Errorf("of %v, %v are admitted: want at most %d rejected", m, got, most)
		}
		s.Read(2*step, 2*step) // now the mix is known
		if got := offer(s, m); m.sum()-got.sum() < int(s.Shed()*float64(m.sum()))-1 {
			t.Errorf("of %v, %v are admitted: want %.2f rejected", m, got, s.Shed())
		}
	}
}

// While as many sheddable requests as may be are rejected, a first critical request passes: an
// error of rounding is no reason to reject it.
func TestFirstCriticalRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		s, m := shedder.New(0.4, 0.5), mix{1 + r.IntN(300), 1 + r.IntN(300), 0, r.IntN(300)}
		h := host{cores: 1, load: 2}
		for range 25 {
			offer(s, m)
			h.run(0)
			s.Read(h.now, h.stalled)
		}
		for range 4 {
			if !s.Admit(shedder.Critical) {
				t.Fatalf("%v: a critical request is rejected with %v of all", m, s.Shed())
			}
		}
	}
}
