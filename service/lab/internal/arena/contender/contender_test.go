//go:build system

package contender

import (
	"context"
	"errors"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/gate"
)

// failsafe is failsafe-go's adaptive limiter, used as its documentation has it
// under "Standalone Usage", and its executor in a server: a call that failed, or that
// its caller left, is dropped, and the others are recorded.
type failsafe struct {
	l adaptivelimiter.AdaptiveLimiter[any]
}

// newFailsafe has the defaults and the queue of the documentation's example:
// twice the limit waits for as long as it likes, and beyond, up to three times
// the limit, ever fewer of the calls that come.
func newFailsafe() limiter {
	return failsafe{adaptivelimiter.NewBuilder[any]().WithQueueing(2, 3).Build()}
}

func (f failsafe) acquire(ctx context.Context) (func(weir.Outcome), weir.Reason) {
	p, err := f.l.AcquirePermit(ctx)
	return released(p, err)
}

func (f failsafe) stats() gate.Stats {
	return gate.Stats{Limit: f.l.Limit(), Inflight: f.l.Inflight(), Waiting: f.l.Queued()}
}

// unqueued is failsafe-go's adaptive limiter with all its defaults, but for
// its initial limit: no call waits.
type unqueued struct{ failsafe }

// newUnqueued begins at a limit. By default that is 20, which happens to be the
// knee of most of the arena's services.
func newUnqueued(initial uint) func() limiter {
	return func() limiter {
		return unqueued{failsafe{adaptivelimiter.NewBuilder[any]().WithLimits(1, 200, initial).Build()}}
	}
}

// acquire does as the executor without a queue.
func (u unqueued) acquire(ctx context.Context) (func(weir.Outcome), weir.Reason) {
	p, err := u.l.AcquirePermitWithMaxWait(ctx, 0)
	return released(p, err)
}

func released(p adaptivelimiter.Permit, err error) (func(weir.Outcome), weir.Reason) {
	if err != nil {
		return nil, weir.OverLimit
	}
	return func(o weir.Outcome) {
		if o == weir.Success {
			p.Record()
		} else {
			p.Drop()
		}
	}, 0
}

// shell is inflight.Config{}.
type shell struct{ l *inflight.Limiter }

func newShell() limiter {
	l, err := inflight.New(inflight.Config{})
	if err != nil {
		panic(err)
	}
	return shell{l}
}

func (w shell) acquire(ctx context.Context) (func(weir.Outcome), weir.Reason) {
	p, err := w.l.Acquire(ctx, 1)
	if err != nil {
		why := weir.OverLimit // of a caller that has left
		if no, ok := errors.AsType[*weir.Rejection](err); ok {
			why = no.Reason
		}
		return nil, why
	}
	return func(o weir.Outcome) { p.Release(o) }, 0
}

func (w shell) stats() gate.Stats {
	st := w.l.Stats()
	return gate.Stats{
		Limit: st.Limit, Inflight: st.Inflight, Held: st.Held, Waiting: st.Waiting,
		Admitted: st.Admitted, Cancelled: st.Cancelled, Waited: st.Waited, Abandoned: st.Abandoned,
		OverLimit: st.Rejected[weir.OverLimit], QueueFull: st.Rejected[weir.QueueFull], Overdue: st.Rejected[weir.Overdue],
		TooLate: st.Rejected[weir.TooLate], Closed: st.Rejected[weir.Closed],
		Success: st.Outcomes[weir.Success], Dropped: st.Outcomes[weir.Dropped], Ignored: st.Outcomes[weir.Ignored],
	}
}
