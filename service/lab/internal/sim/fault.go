package sim

import (
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
)

// A Flap has faults come and go: they occur during the first For of each Every,
// from First on. The zero Flap lets them occur all the time.
type Flap struct {
	First time.Duration `yaml:"first" default:"0s" example:"1m" help:"Beginning of the first period with faults."`
	Every time.Duration `yaml:"every" required:"true" example:"20s" help:"Time from one such period to the next; longer than for."`
	For   time.Duration `yaml:"for" required:"true" example:"5s" help:"Length of such a period, > 0."`
}

// on reports whether faults occur at an instant.
func (f Flap) on(at time.Duration) bool {
	if f.Every == 0 {
		return true
	}
	return at >= f.First && (at-f.First)%f.Every < f.For
}

// next returns the first instant after at at which on changes.
func (f Flap) next(at time.Duration) time.Duration {
	switch since := at - f.First; {
	case f.Every == 0:
		return never
	case since < 0:
		return f.First
	case since%f.Every < f.For:
		return at - since%f.Every + f.For
	default:
		return at - since%f.Every + f.Every
	}
}

// maxHang is how long a job hangs if neither HangFor nor its caller ends it.
const maxHang = time.Minute

// faults are the present faults of a station.
type faults struct {
	failure, refusal, hang float64
	failAfter, refuseAfter dist.ServiceTime
	hangFor                time.Duration
	badPods                int
	down                   bool
}

func (l *Layer) faults() faults {
	return faults{l.FailureRate, l.RefuseRate, l.HangRate, l.FailAfter, l.RefuseAfter, l.HangFor, l.BadPods, false}
}

// change applies a change.
func (st *layerState) change(c *Change) {
	set(&st.slowdown, c.Slowdown)
	set(&st.workers, c.Workers)
	f := &st.faults
	set(&f.failure, c.FailureRate)
	set(&f.refusal, c.RefuseRate)
	set(&f.hang, c.HangRate)
	set(&f.failAfter, c.FailAfter)
	set(&f.refuseAfter, c.RefuseAfter)
	set(&f.hangFor, c.HangFor)
	set(&f.badPods, c.BadPods)
	set(&f.down, c.Down)
}

// fate draws how an arriving job fails for reasons that are not load, and after
// how long. The fate ok means that it does not.
func (l *layer) fate(s *Sim, j *job) (fate resultKind, after time.Duration) {
	f := &l.faults
	if f.failure+f.refusal+f.hang == 0 && !f.down {
		return ok, 0
	}
	rng := s.chance(j.id, j.try<<8|j.nth, forFate+int(l.index))
	if f.down {
		return overloaded, f.refuseAfter.Draw(rng)
	}
	if l.sound[j.class] || !l.cfg.Flap.on(s.now) || l.cfg.Pods > 0 && rng.IntN(l.cfg.Pods) >= f.badPods {
		return ok, 0
	}
	switch u := rng.Float64(); {
	case u < f.refusal:
		return overloaded, f.refuseAfter.Draw(rng)
	case u < f.refusal+f.failure:
		return failed, f.failAfter.Draw(rng)
	case u < f.refusal+f.failure+f.hang && f.hangFor == 0:
		return timedOut, maxHang
	case u < f.refusal+f.failure+f.hang:
		return timedOut, f.hangFor
	}
	return ok, 0
}

// fail lets a job fail after a time in which it holds no worker.
func (s *Sim) fail(j *job, after time.Duration) {
	if after == 0 {
		s.end(j, j.failure())
		return
	}
	j.state, j.free = working, true
	s.agenda.push(s.now+after, evFinish, j.index, j.gen)
}

// failure returns the outcome of a job that fails by its fate. A job that hangs until
// the end times out.
func (j *job) failure() result {
	if j.fate == timedOut {
		return result{kind: overloaded}
	}
	return result{kind: j.fate}
}

// leavesAtOnce reports whether a job ends when its caller leaves. That holds for
// cancelled work, and for work that hangs on the connection of its caller.
func (l *layer) leavesAtOnce(j *job) bool {
	return l.cfg.CancelAbandoned || j.fate == timedOut && l.faults.hangFor == 0
}

// crash refuses all jobs in a station, like a process that dies.
func (s *Sim) crash(l *layer) {
	var all []entry
	for _, j := range s.jobs.all {
		if j.layer == l && j.state != atGate && j.state != finished {
			all = append(all, entry{j, j.gen})
		}
	}
	l.serving = true // no free worker goes to a job that is about to end
	for _, e := range all {
		if e.job.gen != e.gen {
			continue
		}
		if child := e.job.child; child != nil {
			e.job.child = nil
			s.abandon(child)
		}
		s.end(e.job, result{kind: overloaded})
	}
	l.serving = false
}

// retire takes back a job that has ended.
func (s *Sim) retire(j *job) {
	j.layer = nil
	s.jobs.put(j)
}
