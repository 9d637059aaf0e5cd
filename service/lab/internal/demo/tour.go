package demo

import (
	"context"
	"time"

	"github.com/weir-go/weir/service/lab/internal/load"
)

// TourClient is the client of the tour. It waits twice as long as a request of 2 s takes,
// so that a limit that tries one place too many does not fail all requests at once. Its
// workers, like those of Source, offer less while they wait, which bounds the backlog.
var TourClient = Client{Rate: Rate, Workers: 16, TimeoutSeconds: 4}

// TourSpeed is the speed at which the tour lasts half a minute.
const TourSpeed = 5

// A Phase is a part of the tour's story.
type Phase string

// The phases, in their order.
const (
	Normal   Phase = "normal"
	Overload Phase = "overload" // more requests arrive than the origin can finish
	Collapse Phase = "collapse" // it is always busy, and each answer comes too late
	Proxied  Phase = "proxy"    // the proxy is on; the origin finishes the old requests
	Recovery Phase = "recovery" // answers are in time again
)

// Phases are all phases, in their order.
var Phases = []Phase{Normal, Overload, Collapse, Proxied, Recovery}

// titles of the phases, in charts.
var titles = map[Phase]string{
	Normal: "① normal", Overload: "② overload", Collapse: "③ collapse", Proxied: "④ proxy on", Recovery: "⑤ recovery",
}

// tour has the changes of the tour: a new release that is twice as slow, and a proxy that
// protects it.
var tour = []struct {
	at    time.Duration // in units of the experiment
	steer Steer
}{
	{20 * time.Second, Steer{Setup: Setup{ServiceSeconds: 2}}},
	{48 * time.Second, Steer{Setup: Setup{Proxy: "auto"}}},
}

// lost is the goodput, as a share of what the origin can finish, below which it has
// collapsed. Twice that share is a recovery.
const lost = 0.1

// next returns the phase after a sample, given that before it. Overload and Proxied are
// changes of the setup; Collapse and Recovery follow from the measured goodput.
func (p Phase) next(s Sample, setup Setup) Phase {
	share := s.Goodput / setup.capacity()
	switch {
	case setup.Proxy != Off && p == Recovery, setup.Proxy != Off && share >= 2*lost && p == Proxied:
		return Recovery
	case setup.Proxy != Off:
		return Proxied
	case setup.capacity() >= Rate:
		return Normal
	case p == Collapse, share < lost:
		return Collapse
	}
	return Overload
}

// AwaitViewer lets the tour begin when the first page watches, unless a user has changed
// the setup before.
func (l *Live) AwaitViewer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = true
}

// welcome begins the tour if it has waited for a viewer.
func (l *Live) welcome() error {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.mu.Lock()
	awaits := l.awaits
	l.awaits = false
	l.mu.Unlock()
	if !awaits {
		return nil
	}
	return l.steer(Steer{Tour: true})
}

// beginTour begins the tour while changing is held, with an empty history.
func (l *Live) beginTour() error {
	ctx, end := context.WithCancel(l.ctx)
	l.endTour()
	l.endTour = end
	if err := l.begin(Experiments[0].Setup, TourClient, Normal); err != nil {
		end()
		return err
	}
	began := time.Now()
	l.ended.Go(func() {
		for _, step := range tour {
			if load.Sleep(ctx, l.speed.real(step.at)-time.Since(began)) != nil || l.step(ctx, step.steer) != nil {
				return
			}
		}
	})
	return nil
}

// step makes a change of the tour, unless ctx has ended.
func (l *Live) step(ctx context.Context, s Steer) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := s.over(l.current())
	if err != nil {
		return err
	}
	return l.change(to)
}
