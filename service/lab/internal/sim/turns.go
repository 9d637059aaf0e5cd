package sim

import (
	"cmp"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/waitq"
)

// A Rate is a guard that admits requests at a rate, first come, first served.
type Rate struct {
	PerSecond float64       `yaml:"per_second" required:"true" max:"1e9" example:"100" help:"Requests a second, > 0."`
	Burst     int           `yaml:"burst" max:"1000000" default:"1" example:"10" help:"Requests that are admitted at once after a pause."`
	MaxWait   time.Duration `yaml:"max_wait" default:"no bound" example:"75ms" help:"Longest wait for a turn. A request that would wait longer is refused at once."`
	Mute      bool          `yaml:"mute" default:"false" example:"true" help:"Such a request waits for max_wait before it is refused, as at a channel of tokens with a time-out."`
}

// turns is the state of a Rate. It uses waitq.Tokens, like package rate.
type turns struct {
	sim    *Sim
	index  int32 // of the guard
	cfg    *Rate
	quota  gcra.Quota
	bucket gcra.Bucket
	queue  waitq.Tokens[*turn]
	alarm  time.Duration // of the next evTurn for the queue
	late   queue[*turn]  // requests that will be refused after MaxWait
	stats  gate.Stats
}

// A turn is the place of a request in the queue, and the Pass of an admitted one.
type turn struct {
	turns  *turns
	place  *waitq.Turn[*turn] // nil if it is late
	answer func(weir.Reason)  // nil after a late request has left
}

func newTurns(s *Sim, index int32, cfg *Rate) *turns {
	return &turns{sim: s, index: index, cfg: cfg, quota: gcra.PerSecond(cfg.PerSecond, max(cfg.Burst, 1)),
		alarm: never, stats: gate.Stats{Limit: math.MaxInt}}
}

func (t *turns) Acquire(_ gate.Request, answer func(weir.Reason)) (Pass, gate.Verdict, weir.Reason) {
	most := cmp.Or(t.cfg.MaxWait, maxTime)
	bucket, wait, ok := t.quota.Reserve(t.bucket, t.sim.now, 1, most)
	p := &turn{turns: t, answer: answer}
	switch {
	case ok && wait == 0:
		t.bucket = bucket
		t.admit()
		return p, gate.Admit, 0
	case ok:
		t.bucket = bucket
		p.place = t.queue.Join(&t.quota, bucket, 1, p)
		t.arm()
	case !t.cfg.Mute:
		t.stats.OverLimit++
		return nil, gate.Refuse, weir.OverRate
	default:
		t.late.push(p)
		t.sim.agenda.push(t.sim.now+most, evTurn, t.index, 1)
	}
	t.stats.Waiting++
	return p, gate.Wait, 0
}

func (t *turns) admit() {
	t.stats.Admitted++
	t.stats.Inflight++
}

// arm puts the next turn on the agenda.
func (t *turns) arm() {
	if at := t.queue.Deadline(&t.quota); at < t.alarm {
		t.alarm = max(at, t.sim.now)
		t.sim.agenda.push(t.alarm, evTurn, t.index, 0)
	}
}

// come handles a turn or, if late is 1, the end of the longest wait in t.late.
func (t *turns) come(late uint32) {
	if late == 1 {
		if p := t.late.pop(); p.answer != nil {
			t.stats.Waiting--
			t.stats.Overdue++
			p.answer(weir.OverRate)
		}
		return
	}
	t.alarm = never
	for {
		p, more := t.queue.Next(&t.quota, t.sim.now)
		if !more {
			break
		}
		t.stats.Waiting--
		t.admit()
		p.answer(0)
	}
	t.arm()
}

func (t *turns) Stats() gate.Stats { return t.stats }

// Cancel moves the requests behind it forward by one.
func (p *turn) Cancel() {
	t := p.turns
	t.stats.Waiting--
	t.stats.Cancelled++
	if p.place == nil {
		p.answer = nil
		return
	}
	down, _ := t.queue.Cancel(&t.quota, t.sim.now, p.place, t.bucket)
	t.bucket -= down
	t.arm()
}

func (p *turn) Release(o weir.Outcome) {
	st := &p.turns.stats
	st.Inflight--
	switch outcome.Plain(o) {
	case weir.Success:
		st.Success++
	case weir.Dropped:
		st.Dropped++
	default:
		st.Ignored++
	}
	if outcome.Wasted(o) {
		st.Wasted++
	}
}
