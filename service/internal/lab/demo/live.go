package demo

import (
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
	speed speed
	began time.Time
	stop  chan struct{} // closed by Dismiss
	ended sync.WaitGroup

	dismiss sync.Once

	changing sync.Mutex // one change at a time; held while a rig is torn down and built

	mu         sync.Mutex // guards what follows
	rig        *rig
	series     *series
	experiment string // with this setup; empty if there is none
	touched    bool   // a user has changed the setup: the tour is over
	samples    []Sample
	changes    []ChangeMark
	viewers    map[*viewer]struct{}
}

// A ChangeMark is the time of a change of the setup, and a description.
type ChangeMark struct {
	At   float64 `json:"at"` // seconds of the experiment
	Text string  `json:"text"`
}

// NewLive starts the first experiment. The Live must be closed.
func NewLive(times float64) (*Live, error) {
	l := &Live{
		speed: speed(times), began: time.Now(),
		stop: make(chan struct{}), viewers: map[*viewer]struct{}{},
	}
	if err := l.begin(Experiments[0]); err != nil {
		return nil, err
	}
	l.ended.Go(l.tick)
	return l, nil
}

// Dismiss ends the streams of events, so that their server can shut down.
func (l *Live) Dismiss() { l.dismiss.Do(func() { close(l.stop) }) }

// Close ends the demonstration and its servers.
func (l *Live) Close() {
	l.Dismiss()
	l.ended.Wait()
	l.changing.Lock()
	defer l.changing.Unlock()
	l.rig.close()
}

// begin replaces the rig by a new one that runs e.
func (l *Live) begin(e Experiment) error {
	series := newSeries(l.speed)
	next, err := newRig(l.speed, e.Setup, series)
	if err != nil {
		return err
	}
	l.mu.Lock()
	last := l.rig
	l.rig, l.series, l.experiment = next, series, e.Name
	l.markLocked(e.Name + ": " + e.Setup.String())
	l.mu.Unlock()
	if last != nil {
		last.close()
	}
	return nil
}

// A Steer is a change that the page asks for. Zero fields do not change anything.
type Steer struct {
	Experiment     string  `json:"experiment"`
	Workers        int     `json:"workers"`
	ServiceSeconds float64 `json:"service_seconds"`
	Proxy          Mode    `json:"proxy"`
}

// Steer starts an experiment, or changes the setup of the running one. If s is not
// valid, it returns an error and changes nothing.
func (l *Live) Steer(s Steer) error {
	l.mu.Lock()
	l.touched = true
	l.mu.Unlock()
	return l.steer(s)
}

func (l *Live) steer(s Steer) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	switch {
	case s == Steer{}:
		return fmt.Errorf("nothing to change: give experiment, workers, service_seconds or proxy")
	case s.Experiment != "":
		e, err := find(s.Experiment)
		if err == nil && s != (Steer{Experiment: s.Experiment}) {
			err = fmt.Errorf("experiment = %q: is a complete setup and excludes the other fields", s.Experiment)
		}
		if err != nil {
			return err
		}
		return l.begin(e)
	}
	to, err := s.setup(l.rig.current())
	if err != nil {
		return err
	}
	if err := l.rig.change(to); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.experiment = nameOf(to)
	l.markLocked(to.String())
	return nil
}

// tour has the steps of the tour: normal operation; a new release that is twice as
// slow; a proxy that protects it.
var tour = []struct {
	at    time.Duration // in units of the experiment
	steer Steer
}{
	{10 * time.Second, Steer{ServiceSeconds: 2}},
	{30 * time.Second, Steer{Proxy: "auto"}},
}

// Tour runs the tour for half a minute, or until a user changes the setup.
func (l *Live) Tour() {
	l.ended.Go(func() {
		for _, step := range tour {
			next := time.NewTimer(l.speed.real(step.at) - time.Since(l.began))
			select {
			case <-l.stop:
				next.Stop()
				return
			case <-next.C:
			}
			l.mu.Lock()
			touched := l.touched
			l.mu.Unlock()
			if touched || l.steer(step.steer) != nil {
				return
			}
		}
	})
}

// Bounds of a Steer.
const (
	maxWorkers        = 1000
	maxServiceSeconds = 60
)

func (s Steer) setup(from Setup) (Setup, error) {
	to := from
	if s.Workers != 0 {
		if s.Workers < 1 || s.Workers > maxWorkers {
			return to, fmt.Errorf("workers = %d: must be in [1, %d]", s.Workers, maxWorkers)
		}
		to.Workers = s.Workers
	}
	if s.ServiceSeconds != 0 {
		if !(s.ServiceSeconds >= 0.01 && s.ServiceSeconds <= maxServiceSeconds) {
			return to, fmt.Errorf("service_seconds = %v: must be in [0.01, %d]", s.ServiceSeconds, maxServiceSeconds)
		}
		to.ServiceTime = time.Duration(s.ServiceSeconds * float64(time.Second))
	}
	if s.Proxy != "" {
		if s.Proxy != Off {
			if _, err := s.Proxy.limit(); err != nil {
				return to, err
			}
		}
		to.Proxy = s.Proxy
	}
	return to, nil
}

// readings per tick of the requests at the origin.
const readings = 5

// tick samples once per second of the experiment until Close.
func (l *Live) tick() {
	clock := time.NewTicker(l.speed.real(time.Second) / readings)
	defer clock.Stop()
	for n := 1; ; n++ {
		select {
		case <-l.stop:
			return
		case <-clock.C:
		}
		l.mu.Lock()
		rig, series := l.rig, l.series
		l.mu.Unlock()
		series.read(rig.origin)
		if n%readings == 0 {
			l.sample(rig, series)
		}
	}
}

func (l *Live) sample(rig *rig, series *series) {
	s := rig.sample(series, l.at())
	l.mu.Lock()
	defer l.mu.Unlock()
	if rig != l.rig {
		return // replaced meanwhile
	}
	l.samples = push(l.samples, s)
	l.tellLocked("sample", s)
}

func (l *Live) at() time.Duration { return l.speed.own(time.Since(l.began)) }

func (l *Live) markLocked(text string) {
	l.changes = push(l.changes, ChangeMark{At: l.at().Seconds(), Text: text})
	l.tellLocked("state", l.stateLocked())
}

// push appends to a history and forgets its oldest entry if it is full.
func push[T any](list []T, v T) []T {
	if len(list) >= history {
		list = slices.Delete(list, 0, len(list)-history+1)
	}
	return append(list, v)
}

// sample returns the current sample for the page.
func (r *rig) sample(s *series, at time.Duration) Sample {
	setup := r.current()
	if setup.Proxy == Off {
		return s.tick(at, setup, r.origin, nil)
	}
	p := r.proxy.Stats()
	return s.tick(at, setup, r.origin, &p)
}
