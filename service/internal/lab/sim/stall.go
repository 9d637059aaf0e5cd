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

// A process runs a guard, or the guards of split routes.
type process struct {
	index   int32 // in Sim.processes
	cfg     *Stalls
	rng     *rand.Rand
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

// newProcess returns the process of guards with a configuration.
func (s *Sim) newProcess(cfg *Guard) *process {
	p := &process{index: int32(len(s.processes)), cfg: &cfg.Stalls}
	s.processes = append(s.processes, p)
	if p.cfg.For > 0 {
		p.rng = rand.New(rand.NewPCG(s.seed, ^uint64(p.index))) // each variant has the same stalls
		s.agenda.push(p.cfg.First, evStall, p.index, 0)
	}
	return p
}

// stalled reports whether the process of the guard stalls; a job without a guard has nil.
func (g *guard) stalled() bool { return g != nil && g.process.stalled }

// miss keeps an event until the end of the stall.
func (g *guard) miss(j *job, e sight) {
	e.entry = entry{j, j.gen}
	g.process.unseen = append(g.process.unseen, e)
}

// stall begins or ends a stall. At its end, the guards see what they have missed.
func (s *Sim) stall(p *process) {
	p.stalled = !p.stalled
	if p.stalled || p.cfg.Every > 0 {
		s.agenda.push(s.now+p.cfg.next(p.rng, p.stalled), evStall, p.index, 0)
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
	for _, g := range s.guards {
		if g.process == p {
			s.drain(g) // its timers
		}
	}
}
