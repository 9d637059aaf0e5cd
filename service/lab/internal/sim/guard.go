package sim

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// A guard is the state of one instance of a Guard: a gate, or another Limiter.
type guard struct {
	index   int32 // in Sim.guards
	layer   *layer
	process process
	gate    *gate.Gate[*job]
	other   Limiter

	epoch    time.Duration // reading of its clock at the beginning of the run
	timer    time.Duration // of the next evGate, on the clock of the run
	draining bool

	name    string
	kind    int // equal for instances that should get equal shares
	weight  float64
	start   time.Duration
	serves  []bool // by class
	admits  uint64 // since layer.level
	success uint64 // since layer.level, and seen by their callers
}

// initGuards makes the instances of the layer's Guard.
func (l *layer) initGuards(s *Sim) {
	cfg := l.cfg.Guard
	if cfg == nil {
		return
	}
	l.guards = make([]guard, cfg.Instances.Count())
	l.level = s.scenario.Warmup
	groups := cfg.Instances
	if len(groups) == 0 {
		groups = Instances{{}}
	}
	i := 0
	for _, group := range groups {
		for k := range max(group.Count, 1) {
			g := &l.guards[i]
			i++
			*g = guard{index: int32(len(s.guards)), layer: l, timer: never, name: group.label(i, k),
				kind: slices.IndexFunc(groups, group.equal), weight: cmp.Or(group.Weight, 1),
				start: group.Start + time.Duration(k)*group.StartEvery}
			for _, class := range s.classes {
				g.serves = append(g.serves, group.serves(class, groups.names(class)))
			}
			l.level = max(l.level, g.start)
			s.guards = append(s.guards, g)
			g.initProcess(s)
			g.init(s, cfg, &group, k)
		}
	}
}

// equal reports whether the instances of two groups should get equal shares.
func (g Group) equal(h Group) bool {
	return cmp.Or(g.Weight, 1) == cmp.Or(h.Weight, 1) && slices.Equal(g.Classes, h.Classes) && reflect.DeepEqual(g.Limit, h.Limit)
}

// init makes the gate, or the Limiter, of the k-th instance of a group.
func (g *guard) init(s *Sim, cfg *Guard, group *Group, k int) {
	switch {
	case group.Limit != nil:
	case cfg.Other != nil:
		g.other = cfg.Other()
		return
	case cfg.Rate != nil:
		g.other = newTurns(s, g.index, cfg.Rate)
		return
	}
	alg, err := cmp.Or(group.Limit, &cfg.Limit).algorithm()
	if err != nil {
		panic("sim: " + err.Error()) // Validate has made one
	}
	g.epoch = group.Epoch + time.Duration(k)*group.EpochEvery
	if c, ok := alg.(limit.Controller); ok {
		// An exact wall clock begins at a different instant of a month for each seed.
		month := rand.New(rand.NewPCG(s.seed, 0)).Int64N(int64(30 * 24 * time.Hour))
		c.SetEpoch(1_800_000_000*time.Second + time.Duration(month) + group.skew(k) - g.epoch)
	}
	g.gate = gate.New[*job](alg, cfg.config())
}

// instance returns the instance for a job: at random, by weight, among the instances
// that serve its class and have started. The n-th call has the same random number in
// every variant.
func (l *layer) instance(s *Sim, j *job) *guard {
	if len(l.guards) == 1 {
		return &l.guards[0]
	}
	sum := 0.0
	for i := range l.guards {
		if g := &l.guards[i]; g.serves[j.class] && g.start <= s.now {
			sum += g.weight
		}
	}
	u := s.chance(j.id, j.try<<8|j.nth, forInstance+int(l.index)).Float64() * sum
	last := &l.guards[0]
	for i := range l.guards {
		if g := &l.guards[i]; g.serves[j.class] && g.start <= s.now {
			last = g
			if u -= g.weight; u < 0 {
				break
			}
		}
	}
	return last
}

// enter handles the arrival of a job at its guard.
func (s *Sim) enter(j *job) {
	g, r := j.guard, s.request(j)
	if j.entered = s.now; g.stalled() {
		g.miss(j, sight{kind: arrival})
		return
	}
	var verdict gate.Verdict
	var why weir.Reason
	if g.other != nil {
		j.pass, verdict, why = g.other.Acquire(r, func(why weir.Reason) { s.decided(j, why) })
	} else {
		verdict, why = g.gate.Enter(r)
	}
	switch {
	case verdict == gate.Admit:
		s.admitted(j)
	case verdict == gate.Refuse:
		s.end(j, result{rejected, why})
	case g.gate != nil:
		if j.ticket, why = g.gate.Join(s.now+g.epoch, r, j); why != 0 {
			s.end(j, result{rejected, why})
		}
		s.drain(g)
	}
}

// decided continues a job that its guard has admitted, or ends it for a reason.
func (s *Sim) decided(j *job, why weir.Reason) {
	if why != 0 {
		s.end(j, result{rejected, why})
	} else {
		s.admitted(j)
	}
}

// admitted continues a job that its guard has admitted, or that has no guard.
func (s *Sim) admitted(j *job) {
	if g := j.guard; g != nil {
		j.held = true
		if s.now >= g.layer.level {
			g.admits++
		}
		if g.gate != nil {
			j.admitted, j.inflight = s.now, g.gate.Inflight()
		}
	}
	s.station(j)
}

// drain answers the waiters that the guard has admitted or refused, and puts the
// deadline of the guard on the agenda. If an answer calls drain again, the inner call
// leaves the work to the outer one.
func (s *Sim) drain(g *guard) {
	if g == nil || g.draining || g.gate == nil || g.stalled() {
		return
	}
	g.draining = true
	for {
		a, more := g.gate.Next(s.now + g.epoch)
		if !more {
			break
		}
		s.decided(a.Waiter, a.Reason)
	}
	g.draining = false
	if at, some := g.gate.Deadline(); some && at-g.epoch < g.timer {
		g.timer = max(at-g.epoch, s.now)
		s.agenda.push(g.timer, evGate, g.index, 0)
	}
}

// leave handles the departure of an admitted job from its guard.
func (s *Sim) leave(j *job, o weir.Outcome) {
	j.held = false
	g := j.guard
	if o == weir.Success && s.now >= g.layer.level {
		g.success++
	}
	if j.pass != nil {
		j.pass.Release(o)
		return
	}
	g.gate.Leave(limit.Sample{Start: j.admitted + g.epoch, End: s.now + g.epoch, Waited: j.admitted - j.entered, Inflight: j.inflight,
		Outcome: o}, s.request(j))
}
