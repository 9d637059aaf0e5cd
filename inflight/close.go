package inflight

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// Close rejects the waiting requests, and all later ones, with weir.Closed. Work
// in flight continues; Drain waits for it.
func (l *Limiter) Close() {
	l.lock()
	defer l.unlock()
	l.gate.Close()
	l.serveLocked(l.now())
}

// Drain waits until nothing is in flight and no request waits, or returns the
// error of ctx. Without Close, new requests go on to be admitted meanwhile.
func (l *Limiter) Drain(ctx context.Context) error {
	l.lock()
	if l.gate.Inflight() == 0 && l.gate.Waiting() == 0 {
		l.unlock()
		return nil
	}
	if l.drained == nil { // until it is closed, no credit is lent, so that unlock sees each release
		l.drained, l.drainers = make(chan struct{}), 0
	}
	l.drainers++
	drained := l.drained
	l.unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
	}
	l.lock()
	defer l.unlock()
	if l.drained == drained { // else it was closed meanwhile
		if l.drainers--; l.drainers == 0 {
			l.drained = nil
		}
	}
	return ctx.Err()
}

// observed passes a decision to Observe, if there is one, and makes p a permit that
// reports its release. With Observe no credit is lent: the fast path needs no check.
func (l *Limiter) observed(ctx context.Context, n int, waited time.Duration, p *weir.Permit, err error) {
	if l.observe == nil {
		return
	}
	told := false
	defer func() {
		if !told { // a panic
			p.Release(weir.Ignored)
		}
	}()
	released := l.observe(ctx, n, waited, err)
	told = true
	if err != nil || released == nil {
		return
	}
	o := &observedOwner{permit: p.Move(), released: released}
	o.owner = o
	*p = weir.OwnedPermit(&o.owner, weir.Grant{N: n})
}

// An observedOwner owns the permit that the caller holds in place of permit.
type observedOwner struct {
	owner    weir.Owner // itself
	permit   weir.Permit
	released func(weir.Outcome)
}

func (o *observedOwner) Use(_ weir.Grant, n int) int {
	o.permit.Use(n)
	return n
}

func (o *observedOwner) Report(g weir.Grant, outcome weir.Outcome) weir.Grant {
	o.permit.Report(outcome)
	return g
}

func (o *observedOwner) Release(_ weir.Grant, outcome weir.Outcome) {
	o.permit.Release(outcome)
	o.released(outcome)
}
