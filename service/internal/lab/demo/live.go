package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
)

// history bounds the samples and changes that a new viewer gets.
const history = 600

// A Live is a running demonstration, which pages watch and control. It is safe for
// concurrent use.
type Live struct {
	speed speed
	began time.Time
	ctx   context.Context // ended by stop
	stop  context.CancelFunc
	ended sync.WaitGroup

	changing sync.Mutex // one change at a time; held while a rig is torn down and built

	mu      sync.Mutex // guards what follows
	rig     *rig
	setup   Setup
	touched bool // a user has changed the setup: the tour is over
	samples []Sample
	changes []ChangeMark
	viewers map[chan []byte]struct{}
}

// A ChangeMark is the time of a change of the setup, and a description.
type ChangeMark struct {
	At   float64 `json:"at"` // seconds of the experiment
	Text string  `json:"text"`
}

// NewLive starts the first experiment. The Live must be closed.
func NewLive(times float64) (*Live, error) {
	l := &Live{speed: speed(times), began: time.Now(), viewers: map[chan []byte]struct{}{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if err := l.begin(Experiments[0]); err != nil {
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
	l.ended.Wait()
	l.changing.Lock()
	defer l.changing.Unlock()
	l.rig.close()
}

// begin replaces the rig by a new one that runs e.
func (l *Live) begin(e Experiment) error {
	next, err := newRig(loopback, l.speed, e.Setup, window)
	if err != nil {
		return err
	}
	l.mu.Lock()
	last := l.rig
	l.rig = next
	l.changedLocked(e.Setup, e.Name+": "+e.Title)
	l.mu.Unlock()
	if last != nil {
		last.close()
	}
	return nil
}

// A Steer is a change that the page asks for. Zero fields do not change anything.
type Steer struct {
	Experiment string `json:"experiment"`
	Setup
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
	case s.Experiment != "" && s.Setup != Setup{}:
		return fmt.Errorf("experiment = %q: is a complete setup and excludes the other fields", s.Experiment)
	case s.Experiment != "":
		i := slices.IndexFunc(Experiments, func(e Experiment) bool { return e.Name == s.Experiment })
		if i < 0 {
			return fmt.Errorf("experiment = %q: there is no experiment of that name", s.Experiment)
		}
		return l.begin(Experiments[i])
	}
	l.mu.Lock()
	from := l.setup
	l.mu.Unlock()
	to, err := s.over(from)
	if err != nil {
		return err
	}
	if err := l.rig.change(from, to); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changedLocked(to, to.title())
	return nil
}

// tour has the steps of the tour: normal operation; a new release that is twice as
// slow; a proxy that protects it.
var tour = []struct {
	at    time.Duration // in units of the experiment
	steer Steer
}{
	{10 * time.Second, Steer{Setup: Setup{ServiceSeconds: 2}}},
	{30 * time.Second, Steer{Setup: Setup{Proxy: "auto"}}},
}

// Tour runs the tour for half a minute, or until a user changes the setup.
func (l *Live) Tour() {
	l.ended.Go(func() {
		for _, step := range tour {
			if load.Sleep(l.ctx, l.speed.real(step.at)-time.Since(l.began)) != nil {
				return
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

// readings per tick of the requests at the origin.
const readings = 5

// tick samples once per second of the experiment until Close.
func (l *Live) tick() {
	clock := time.NewTicker(l.speed.real(time.Second) / readings)
	defer clock.Stop()
	for n := 1; ; n++ {
		select {
		case <-l.ctx.Done():
			return
		case <-clock.C:
		}
		l.mu.Lock()
		rig, setup := l.rig, l.setup
		l.mu.Unlock()
		rig.meter.read(rig.origin)
		if n%readings == 0 {
			l.sample(rig, setup)
		}
	}
}

func (l *Live) sample(rig *rig, setup Setup) {
	s := rig.sample(l.at(), setup)
	l.mu.Lock()
	defer l.mu.Unlock()
	if rig != l.rig {
		return // replaced meanwhile
	}
	l.samples = push(l.samples, s)
	l.tellLocked("sample", s)
}

func (l *Live) at() time.Duration { return l.speed.own(time.Since(l.began)) }

func (l *Live) changedLocked(to Setup, text string) {
	l.setup = to
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
