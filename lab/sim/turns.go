package sim

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gate"
	"github.com/weir-go/weir/gcra"
)

// A Rate is a guard that lets in so many a second, first come, first served.
type Rate struct {
	PerSecond float64       `yaml:"per_second" json:"per_second"`       // > 0
	Burst     int           `yaml:"burst" json:"burst,omitempty"`       // at once. If zero, 1
	MaxWait   time.Duration `yaml:"max_wait" json:"max_wait,omitempty"` // for its turn; beyond, refused. If zero, unbounded
	// Mute lets those whose turn would come too late wait for MaxWait all the
	// same, and refuses them then, as a channel of tokens with a time-out
	// does. If false, they are refused at once.
	Mute bool `yaml:"mute" json:"mute,omitempty"`
}

// turns is a Rate that runs.
type turns struct {
	sim     *Sim
	index   int32 // of the layer
	cfg     *Rate
	quota   gcra.Quota
	bucket  gcra.Bucket
	pending map[uint32]*turn // by number: those who wait
	number  uint32           // of the latest
	stats   gate.Stats
}

// A turn is a request's place in line, and later what it is let in by.
type turn struct {
	of     *turns
	number uint32 // 0: it does not wait
	why    weir.Reason
	answer func(weir.Reason)
}

func newTurns(s *Sim, index int32, cfg *Rate) *turns {
	return &turns{sim: s, index: index, cfg: cfg, quota: gcra.PerSecond(cfg.PerSecond, max(cfg.Burst, 1)),
		pending: map[uint32]*turn{}, stats: gate.Stats{Limit: math.MaxInt}}
}

func (t *turns) Acquire(_ gate.Request, answer func(weir.Reason)) (Pass, gate.Verdict, weir.Reason) {
	most := t.cfg.MaxWait
	if most == 0 {
		most = maxTime
	}
	bucket, wait, ok := t.quota.Reserve(t.bucket, t.sim.now, 1, most)
	p := &turn{of: t, answer: answer}
	switch {
	case ok && wait == 0:
		t.bucket = bucket
		t.stats.Admitted++
		t.stats.Inflight++
		return p, gate.Admit, 0
	case ok:
		t.bucket = bucket
	case !t.cfg.Mute:
		t.stats.OverLimit++
		return nil, gate.Refuse, weir.OverRate
	default:
		p.why, wait = weir.OverRate, most
	}
	t.number++
	p.number = t.number
	t.pending[p.number] = p
	t.stats.Waiting++
	t.sim.agenda.push(t.sim.now+wait, evTurn, t.index, p.number)
	return p, gate.Wait, 0
}

// come is the end of somebody's wait.
func (t *turns) come(number uint32) {
	p := t.pending[number]
	if p == nil {
		return // it has left
	}
	t.forget(p)
	if p.why != 0 {
		t.stats.Overdue++
	} else {
		t.stats.Admitted++
		t.stats.Inflight++
	}
	p.answer(p.why)
}

func (t *turns) forget(p *turn) {
	delete(t.pending, p.number)
	t.stats.Waiting--
}

func (t *turns) Stats() gate.Stats { return t.stats }

// Cancel gives the token back to the bucket.
func (p *turn) Cancel() {
	p.of.forget(p)
	p.of.stats.Cancelled++
	if p.why == 0 {
		p.of.bucket = p.of.quota.Refund(p.of.bucket, 1)
	}
}

func (p *turn) Release(o weir.Outcome) {
	st := &p.of.stats
	st.Inflight--
	switch o {
	case weir.Success:
		st.Success++
	case weir.Dropped, weir.TimedOut, weir.Late:
		st.Dropped++
	default:
		st.Ignored++
	}
}
