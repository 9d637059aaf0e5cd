//go:build system

package contender

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A limiter is a library that makes its callers wait.
type limiter interface {
	// acquire returns what is to be called at the end of the work or, if there
	// is no work, why.
	acquire(context.Context) (release func(weir.Outcome), why weir.Reason)
	stats() gate.Stats
}

// A host lets limiters guard a simulated service, inside a bubble: one, or an
// instance for each replica. Only the bubble's first goroutine calls its
// methods; each waiter has a goroutine.
type host struct {
	ctx  context.Context // ends with the run
	more chan struct{}   // capacity one: there is something in answered

	mu       sync.Mutex
	answered []*pass // guarded by mu: waiters with an answer
}

// A replica is one limiter of a host.
type replica struct {
	limiter
	*host
}

// A pass is written by the goroutine that acquires, which ends with done, and
// read by the first only after a synctest.Wait.
type pass struct {
	leave   context.CancelFunc
	answer  func(weir.Reason) // nil until it waits
	gone    bool              // cancelled
	done    bool
	release func(weir.Outcome) // nil: not admitted
	why     weir.Reason
}

func newHost(ctx context.Context) *host {
	return &host{ctx: ctx, more: make(chan struct{}, 1)}
}

// replica returns a guard for one limiter.
func (h *host) replica(l limiter) sim.Limiter { return &replica{l, h} }

// Acquire lets the limiter say at once what it has to say at once.
func (h *replica) Acquire(_ gate.Request, answer func(weir.Reason)) (sim.Pass, gate.Verdict, weir.Reason) {
	p := &pass{}
	var ctx context.Context
	ctx, p.leave = context.WithCancel(h.ctx)
	go func() {
		p.release, p.why = h.acquire(ctx)
		p.done = true
		if p.answer != nil {
			h.tell(p)
		}
	}()
	synctest.Wait()
	switch {
	case !p.done:
		p.answer = answer
		return p, gate.Wait, 0
	case p.release != nil:
		return p, gate.Admit, 0
	default:
		p.leave()
		return p, gate.Refuse, p.why
	}
}

func (h *host) tell(p *pass) {
	h.mu.Lock()
	h.answered = append(h.answered, p)
	h.mu.Unlock()
	select {
	case h.more <- struct{}{}:
	default: // it has been told of another
	}
}

// Cancel ends the context of a waiter, as a server does when its client leaves.
func (p *pass) Cancel() {
	p.gone = true
	p.leave()
}

func (p *pass) Release(o weir.Outcome) {
	p.release(o)
	p.leave()
}

func (h *replica) Stats() gate.Stats { return h.stats() }

// play brings a simulation to its end, in step with the bubble's clock.
func (h *host) play(s *sim.Sim, end time.Duration) {
	began := time.Now()
	for s.Now() < end {
		h.settle()
		select {
		case <-time.After(s.Next() - s.Now()):
		case <-h.more:
		}
		s.Until(time.Since(began))
	}
}

// settle gives the answers, and the answers that follow from them.
func (h *host) settle() {
	for {
		synctest.Wait()
		h.mu.Lock()
		answered := h.answered
		h.answered = nil
		h.mu.Unlock()
		if len(answered) == 0 {
			return
		}
		for _, p := range answered {
			switch {
			case !p.gone:
				p.answer(p.why)
			case p.release != nil: // it was let in as it left
				p.release(outcome.Left)
			}
		}
	}
}
