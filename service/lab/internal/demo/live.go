package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// history bounds the samples and changes that a new viewer gets.
const history = 600

// A Live is a running demonstration, which pages watch and control. It is safe for
// concurrent use.
type Live struct {
	network network
	speed   speed
	ctx     context.Context // ended by stop
	stop    context.CancelFunc
	ended   sync.WaitGroup

	changing sync.Mutex         // one change at a time; held while a rig is torn down and built
	endTour  context.CancelFunc // guarded by changing

	mu      sync.Mutex // guards what follows
	began   time.Time  // of the history
	rig     *rig
	setup   Setup
	phase   Phase // empty outside of the tour
	awaits  bool  // the tour begins with the first viewer
	samples []Sample
	changes []ChangeMark
	viewers map[chan []byte]struct{}
}

// A ChangeMark is the time of a change of the setup or of the phase, and a description.
type ChangeMark struct {
	At   float64 `json:"at"` // seconds of the experiment
	Text string  `json:"text"`
}

// NewLive starts the first experiment. The Live must be closed.
func NewLive(times float64) (*Live, error) { return newLive(loopback, times) }

func newLive(n network, times float64) (*Live, error) {
	l := &Live{network: n, speed: speed(times), began: time.Now(), viewers: map[chan []byte]struct{}{}, endTour: func() {}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if err := l.begin(Experiments[0].Setup, Source, ""); err != nil {
		return nil, err
	}
	l.ended.Go(l.tick)
	return l, nil
}

// Dismiss ends the streams of events, so that their server can shut down.
func (l *Live) Dismiss() { l.stop() }

// Close ends the demonstration and its servers.
func (l *Live) Close() {
	l.Dismiss()
	l.changing.Lock()
	l.endTour() // no other tour begins after this one
	l.changing.Unlock()
	l.ended.Wait()
	l.changing.Lock()
	defer l.changing.Unlock()
	l.rig.close()
}

// begin replaces the rig by a new one. A phase begins a tour, with an empty history.
func (l *Live) begin(setup Setup, client Client, phase Phase) error {
	next, err := newRig(l.network, l.speed, client, setup, window)
	if err != nil {
		return err
	}
	l.mu.Lock()
	last := l.rig
	l.rig = next
	if phase != "" {
		l.began, l.samples, l.changes = time.Now(), nil, nil
	}
	l.changedLocked(setup, phase)
	l.mu.Unlock()
	if last != nil {
		last.close()
	}
	return nil
}

// A Steer is a change that the page asks for. Zero fields do not change anything.
type Steer struct {
	Experiment string `json:"experiment"`
	Tour       bool   `json:"tour"`
	Setup
}

// Steer starts an experiment or the tour, or changes the setup of the running one, which
// ends the tour. If s is not valid, it returns an error and changes nothing.
func (l *Live) Steer(s Steer) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	return l.steer(s)
}

func (l *Live) steer(s Steer) error {
	switch {
	case l.ctx.Err() != nil:
		return fmt.Errorf("the demonstration has ended")
	case s == Steer{}:
		return fmt.Errorf("nothing to change: give experiment, tour, workers, service_seconds or proxy")
	case s.Experiment != "" && s != Steer{Experiment: s.Experiment}:
		return fmt.Errorf("experiment = %q: is a complete setup and excludes the other fields", s.Experiment)
	case s.Tour && s != Steer{Tour: true}:
		return fmt.Errorf("tour = true: is a complete setup and excludes the other fields")
	case s.Tour:
		return l.beginTour()
	case s.Experiment != "":
		i := slices.IndexFunc(Experiments, func(e Experiment) bool { return e.Name == s.Experiment })
		if i < 0 {
			return fmt.Errorf("experiment = %q: there is no experiment of that name", s.Experiment)
		}
		l.leaveTour()
		return l.begin(Experiments[i].Setup, Source, "")
	}
	to, err := s.over(l.current())
	if err != nil {
		return err
	}
	l.leaveTour()
	return l.change(to)
}

// current returns the setup.
func (l *Live) current() Setup {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.setup
}

// leaveTour ends the tour. The next change shows it.
func (l *Live) leaveTour() {
	l.endTour()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.awaits = "", false
}

// change changes the setup of the running rig while changing is held.
func (l *Live) change(to Setup) error {
	if err := l.rig.change(l.current(), to); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	phase := l.phase
	if phase != "" {
		phase = phase.next(Sample{Goodput: to.capacity()}, to)
	}
	l.changedLocked(to, phase)
	return nil
}

// Bounds of a Steer.
const (
	maxWorkers        = 1000
	maxServiceSeconds = 60
)

// over returns the setup with the changes of s.
func (s Steer) over(setup Setup) (Setup, error) {
	if s.Workers < 0 || s.Workers > maxWorkers {
		return setup, fmt.Errorf("workers = %d: must be in [1, %d]", s.Workers, maxWorkers)
	}
	if v := s.ServiceSeconds; v != 0 && !(v >= 0.01 && v <= maxServiceSeconds) {
		return setup, fmt.Errorf("service_seconds = %v: must be in [0.01, %d]", v, maxServiceSeconds)
	}
	setup.Workers = cmp.Or(s.Workers, setup.Workers)
	setup.ServiceSeconds = cmp.Or(s.ServiceSeconds, setup.ServiceSeconds)
	setup.Proxy = cmp.Or(s.Proxy, setup.Proxy)
	_, err := setup.Proxy.limit()
	return setup, err
}

// tick samples once per second of the experiment until Close.
func (l *Live) tick() {
	clock := time.NewTicker(l.speed.real(time.Second))
	defer clock.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-clock.C:
			l.sample()
		}
	}
}

func (l *Live) sample() {
	l.mu.Lock()
	rig, setup := l.rig, l.setup
	l.mu.Unlock()
	s := rig.sample(setup)
	l.mu.Lock()
	defer l.mu.Unlock()
	if rig != l.rig {
		return // replaced meanwhile
	}
	s.At = l.atLocked()
	if s.Phase = l.phase; s.Phase != "" && setup == l.setup {
		s.Phase = l.phase.next(s, setup)
	}
	l.samples = push(l.samples, s)
	if s.Phase != l.phase {
		l.changedLocked(setup, s.Phase)
		return
	}
	l.tellLocked("sample", s)
}

func (l *Live) atLocked() float64 { return l.speed.own(time.Since(l.began)).Seconds() }

// changedLocked notes a setup, and a phase if there is a tour.
func (l *Live) changedLocked(to Setup, phase Phase) {
	l.setup, l.phase = to, phase
	text := to.title()
	if phase != "" {
		text = titles[phase]
	}
	l.changes = push(l.changes, ChangeMark{At: l.atLocked(), Text: text})
	l.tellLocked("state", l.stateLocked())
}

// push appends to a history and forgets its oldest entry if it is full.
func push[T any](list []T, v T) []T {
	if len(list) >= history {
		list = slices.Delete(list, 0, len(list)-history+1)
	}
	return append(list, v)
}
