package demo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// The tour tells its story within half a minute, in virtual time: goodput collapses
// while the origin is busy, and the proxy brings it to the bound of Little's law.
func TestTour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newLive(memory(), TourSpeed)
		testrig.Must(t, err)
		testrig.Must(t, l.Steer(Steer{Tour: true}))
		time.Sleep(30 * time.Second)
		l.mu.Lock()
		samples, changes := l.samples, l.changes
		l.mu.Unlock()
		l.Close()
		time.Sleep(time.Minute) // the origin ends abandoned work

		first := map[Phase]Sample{}
		order := []Phase{}
		for _, s := range samples {
			o := s.Origin
			t.Logf("%5.1f s %-8s goodput %.2f of %.2f rps, N %.1f, limit %v", s.At, s.Phase, s.Goodput, o.X, o.N, s.Proxy)
			if _, known := first[s.Phase]; !known {
				first[s.Phase] = s
				order = append(order, s.Phase)
			}
			if s.Phase == Collapse && s.At-first[Collapse].At > window && !(s.Goodput < 0.05 && o.X > 3.4) {
				t.Errorf("at %.1f s: goodput %.2f, and the origin finishes %.2f rps: want 0 and 3.5", s.At, s.Goodput, o.X)
			}
			if o.R != nil && (o.N < 0.999*o.X**o.R || o.N > 1.001*o.X**o.R) {
				t.Errorf("at %.1f s: N = %v, X·R = %v", s.At, o.N, o.X**o.R)
			}
		}
		if len(changes) != len(Phases) || len(order) != len(Phases) {
			t.Fatalf("phases %v, changes %v: want %v", order, changes, Phases)
		}
		for i, p := range Phases {
			if order[i] != p || changes[i].Text != titles[p] {
				t.Errorf("phase %d is %s, with the title %q: want %s", i, order[i], changes[i].Text, p)
			}
		}
		bound := 0.0
		for _, s := range samples {
			if s.Phase == Recovery && s.Goodput >= 3.45 {
				bound = s.At / TourSpeed
				break
			}
		}
		t.Logf("the bound is reached after %.1f s", bound)
		if bound == 0 || bound > 25 {
			t.Errorf("the bound of 3.5 rps is reached after %.1f s: want it within 25 s", bound)
		}
		last := samples[len(samples)-1]
		if last.Goodput < 3.4 || last.Proxy == nil || last.Proxy.Limit < 7 {
			t.Errorf("at the end: goodput %.2f rps, %+v: want 3.5 rps and a limit of 7 or more", last.Goodput, last.Proxy)
		}
	})
}
