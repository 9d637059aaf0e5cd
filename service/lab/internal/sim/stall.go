package sim

import (
	"math/rand/v2"
	"time"
)

// Stalls stop the process of a guard now and then, as a busy machine does: it gets no
// processor for a while. Its timers are late, and it sees the events of a stall at the
// end, in their order.
type Stalls struct {
	First  time.Duration `yaml:"first" default:"0s" example:"30s" help:"Instant of the first stall."`
	Every  time.Duration `yaml:"every" default:"one stall only" example:"250ms" help:"Time from one stall to the next; longer than for."`
	For    time.Duration `yaml:"for" default:"0s: no stall" example:"50ms" help:"Length of a stall."`
	Random bool          `yaml:"random" default:"false" example:"true" help:"The lengths of the stalls, and of the times between them, are exponentially distributed; every and for are the means."`
}

// next returns how long the process stalls, or runs, from now on.
func (st *Stalls) next(rng *rand.Rand, stalls bool) time.Duration {
	d := st.For
	if !stalls {
		d = st.Every - st.For
	}
	if st.Random {
		d = time.Duration(rng.ExpFloat64() * float64(d))
	}
	return max(d, 1) // so that the simulated time advances
}

// A process runs a guard.
type process struct {
	rng     *rand.Rand // nil if it does not stall
	stalled bool
	unseen  []sight
}

// A sight is an event that a guard has yet to see.
type sight struct {
	entry
	kind      sightKind
	result    result // of a departure
	abandoned bool   // of a departure: the caller had left
}

type sightKind uint8

const (
	arrival     sightKind = iota // a request
	departure                    // the end of the work
	abandonment                  // the caller has left
)

// initProcess makes the process of a guard.
func (g *guard) initProcess(s *Sim) {
	if st := g.layer.cfg.Guard.Stalls; st.For > 0 {
		g.process.rng = rand.New(rand.NewPCG(s.seed, ^uint64(g.index))) // each variant has the same stalls
		s.agenda.push(st.First, evStall, g.index, 0)
	}
}

// stalled reports whether the process of the guard stalls; a job without a guard has nil.
func (g *guard) stalled() bool { return g != nil && g.process.stalled }

// miss keeps an event until the end of the stall.
func (g *guard) miss(j *job, e sight) {
	e.entry = entry{j, j.gen}
	g.process.unseen = append(g.process.unseen, e)
}

// stall begins or ends a stall. At its end, the guard sees what it has missed.
func (s *Sim) stall(g *guard) {
	p, st := &g.process, &g.layer.cfg.Guard.Stalls
	p.stalled = !p.stalled
	if p.stalled || st.Every > 0 {
		s.agenda.push(s.now+st.next(p.rng, p.stalled), evStall, g.index, 0)
	}
	if p.stalled {
		return
	}
	for _, e := range p.unseen {
		switch j := e.job; {
		case j.gen != e.gen:
		case e.kind == arrival:
			s.enter(j)
		case e.kind == departure:
			s.depart(j, e.result, e.abandoned)
		default:
			s.abandon(j)
		}
	}
	p.unseen = p.unseen[:0]
	s.drain(g) // its timers
}
