package outgoing

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// A Path admits the requests to a server: through a Queue, a throttle and a limiter, in
// this order. Each may be missing.
type Path struct {
	Queue    func(name string) *Queue // of the requests of a name; nil if they need not wait
	Throttle weir.Limiter
	Limiter  weir.Limiter
}

// An Attempt is a request on its Path, and the permits that it holds.
type Attempt struct {
	Number   uint64        // in the Queue; 0 if there is none
	Waited   time.Duration // in the Queue; negative if it did not wait
	Throttle weir.Permit
	Limit    weir.Permit
}

// A Refuser is the part of a Path that refuses a request.
type Refuser uint8

// The Refusers.
const (
	ByQueue Refuser = iota
	ByThrottle
	ByLimiter
	Refusers = iota // their number
)

// Admit waits until a request may be sent, and fills its Attempt, which was zero. If a part of the Path refuses it, the
// others get back what they gave. If the server asks for a wait while the request
// waits for its unit of the limiter, the request gives the unit back and waits in the
// Queue again.
func (p *Path) Admit(ctx context.Context, name string, a *Attempt) (by Refuser, err error) {
	a.Waited = -1
	if err = p.wait(ctx, name, a); err != nil {
		return ByQueue, err
	}
	if p.Throttle != nil {
		if a.Throttle, err = p.Throttle.Acquire(ctx, 1); err != nil {
			p.cancel(name, a)
			return ByThrottle, err
		}
	}
	for p.Limiter != nil {
		if a.Limit, err = p.Limiter.Acquire(ctx, 1); err != nil {
			p.cancel(name, a)
			unused(&a.Throttle)
			return ByLimiter, err
		}
		if q := p.Queue(name); q == nil || q.Renew(&a.Number) {
			break
		}
		unused(&a.Limit)
		if err = p.wait(ctx, name, a); err != nil {
			unused(&a.Throttle)
			return ByQueue, err
		}
	}
	return 0, nil
}

// wait waits in the Queue.
func (p *Path) wait(ctx context.Context, name string, a *Attempt) error {
	q := p.Queue(name)
	if q == nil {
		return nil
	}
	number, waited, err := q.Wait(ctx)
	a.Number = number
	if waited >= 0 {
		a.Waited = max(a.Waited, 0) + waited
	}
	return err
}

// cancel takes a request back from the Queue.
func (p *Path) cancel(name string, a *Attempt) {
	if a.Number > 0 {
		p.Queue(name).Cancel(a.Number)
	}
}

// unused releases the permit of work that has not begun.
func unused(p *weir.Permit) {
	p.Use(0)
	p.Release(weir.Ignored)
}
