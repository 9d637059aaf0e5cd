package sim

import (
	"math"
	"slices"
	"time"
)

// A station has the workers of a layer, and the jobs that wait for one.
type station struct {
	layerState
	sound   []bool  // by class: without faults
	classes []Class // by class
	pause   Pause

	waiting queue[entry]
	queued  int // entries of waiting that are not stale
	serving bool
	shared  shared
}

type entry struct {
	job *job
	gen uint32
}

func (t *station) init(cfg *Layer, classes []string) {
	t.layerState = layerState{workers: cfg.Workers, slowdown: 1, faults: cfg.faults()}
	t.pause, t.shared = cfg.Pause, newShared()
	if t.workers == 0 {
		t.workers = math.MaxInt
	}
	for _, name := range classes {
		t.classes = append(t.classes, cfg.class(name))
		t.sound = append(t.sound, !cfg.faulty(name))
	}
}

// class returns the work of a class.
func (l *Layer) class(name string) Class {
	if own, ok := l.Classes[name]; ok {
		return own
	}
	return Class{ServiceTime: l.ServiceTime}
}

// targets returns the indices of the layers that a request of a class calls in the i-th layer.
func (sc *Scenario) targets(i int, class string) (all []int) {
	k := sc.Layers[i].class(class)
	for _, name := range k.CallsOf {
		all = append(all, slices.IndexFunc(sc.Layers, func(l Layer) bool { return l.Name == name }))
	}
	if i == len(sc.Layers)-1 || len(all) > 0 {
		return all
	}
	n := sc.Layers[i].Calls
	switch {
	case k.Calls != nil:
		n = *k.Calls
	case n == 0 && !sc.named(i):
		n = 1
	}
	return slices.Repeat([]int{i + 1}, n)
}

// named reports whether a layer above calls the i-th layer by its name.
func (sc *Scenario) named(i int) bool {
	return slices.ContainsFunc(sc.Layers[:i], func(l Layer) bool {
		for _, k := range l.Classes {
			if slices.Contains(k.CallsOf, sc.Layers[i].Name) {
				return true
			}
		}
		return false
	})
}

// faulty reports whether faults occur in a class.
func (l *Layer) faulty(class string) bool {
	return len(l.FailingClasses) == 0 || slices.Contains(l.FailingClasses, class)
}

// station starts the work of a job, or lets it wait for a worker, unless it is to fail.
func (s *Sim) station(j *job) {
	l := j.layer
	fate, after := l.fate(s, j)
	if j.fate = fate; fate != ok && !(fate == failed && l.cfg.FailWorks) {
		s.fail(j, after)
		return
	}
	switch most := l.cfg.Queue; {
	case l.classes[j.class].Stream:
		s.stream(j)
	case l.cfg.Sharing, l.busy < l.workers && l.queued == 0:
		s.begin(j)
	case most != nil && l.queued >= *most:
		s.end(j, result{kind: overloaded})
	default:
		j.state = queued
		l.queued++
		l.waiting.push(entry{j, j.gen})
	}
}

// begin starts the work of a job.
func (s *Sim) begin(j *job) {
	l := j.layer
	j.state = working
	l.note(s.now)
	l.busy++
	rng := s.chance(j.id, j.try<<8|j.nth, forWork+int(l.index))
	work := l.classes[j.class].Draw(rng)
	switch {
	case j.fate == failed:
		work = l.faults.failAfter.Draw(rng)
	case j.work > 0 && l.index == 0:
		work = j.work
	}
	if factor := l.slowdown * l.cfg.Contention.Factor(l.busy); factor != 1 {
		work = span(float64(work) * factor)
	}
	if l.cfg.Sharing {
		l.share(s, j, work)
		return
	}
	s.agenda.push(l.pause.after(s.now, work), evFinish, j.index, j.gen)
}

// stream starts a stream.
func (s *Sim) stream(j *job) {
	j.state, j.free = working, true
	rng := s.chance(j.id, j.try<<8|j.nth, forWork+int(j.layer.index))
	s.agenda.push(s.now+min(j.layer.classes[j.class].Draw(rng), maxTime), evFinish, j.index, j.gen)
}

// span returns a number of nanoseconds as a duration, or never.
func span(ns float64) time.Duration {
	if ns >= float64(never) {
		return never
	}
	return time.Duration(ns)
}

// Factor multiplies the service times of n busy workers.
func (c Contention) Factor(n int) float64 {
	if c == (Contention{}) {
		return 1
	}
	others := float64(n - 1)
	return 1 + c.Sigma*others + c.Kappa*float64(n)*others
}

// vacate takes a job that ends out of the station.
func (l *layer) vacate(s *Sim, j *job) {
	switch {
	case j.state == queued:
		l.queued-- // its entry is stale from now on
		return
	case j.free, j.state == atGate, j.state == calling && l.cfg.Sharing:
		return
	case l.cfg.Sharing:
		l.unshare(s, j)
	}
	l.note(s.now)
	l.busy--
}

// serve gives free workers to waiting jobs. If that calls serve again, the inner call
// leaves the work to the outer one.
func (s *Sim) serve(l *layer) {
	if l.serving {
		return
	}
	l.serving = true
	for l.queued > 0 && l.busy < l.workers {
		e := l.waiting.pop()
		if e.job.gen == e.gen {
			l.queued--
			s.begin(e.job)
		}
	}
	l.serving = false
	if l.queued == 0 {
		l.waiting = queue[entry]{items: l.waiting.items[:0]} // all that is left is stale
	}
}

// change applies the i-th change.
func (s *Sim) change(l *layer, i uint32) {
	c := l.cfg.Changes[i]
	l.advance(s) // the work so far was at the old speed
	down := l.faults.down
	if l.layerState.change(&c); l.faults.down && !down {
		s.crash(l)
	}
	l.schedule(s)
	s.serve(l)
	for i := range l.guards {
		s.drain(&l.guards[i])
	}
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// active returns the time until t without pauses.
func (p Pause) active(t time.Duration) time.Duration {
	since := t - p.First
	switch {
	case p.For == 0 || since <= 0:
		return t
	case p.Every == 0:
		return t - min(since, p.For)
	default:
		return t - since/p.Every*p.For - min(since%p.Every, p.For)
	}
}

// after returns the end of work that begins at t: the least instant with
// active(instant) = active(t) + work.
func (p Pause) after(t, work time.Duration) time.Duration {
	if work > maxTime {
		return never // after the end of every run
	}
	if p.For == 0 {
		return t + work
	}
	target := p.active(t) + work
	since := target - p.First // on the clock that stands still in pauses
	switch {
	case since <= 0:
	case p.Every == 0:
		target += p.For
	default: // the pauses that begin before the target
		n := (since + p.Every - p.For - 1) / (p.Every - p.For)
		if n > maxTime/p.For {
			return never
		}
		target += n * p.For
	}
	return max(target, t) // work of zero ends at once, also in a pause
}
