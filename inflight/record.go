package inflight

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
)

// records makes the records of a Limiter.
type records struct {
	to     *recording.Recorder
	offset time.Duration // of the Limiter's epoch from that of the Recorder
}

// arrival returns the instant at which a request has come, if it matters.
func (l *Limiter) arrival() time.Duration {
	if l.records == nil {
		return 0
	}
	return l.now()
}

// recordCredit returns the recorded permit of a request that has taken units from the credit with
// a word.
func (l *Limiter) recordCredit(ctx context.Context, word uint64, g weir.Grant) weir.Permit {
	a := answer{at: g.At, inflight: max(int(l.credit.total.Load())-free(word), 0) + g.N}
	if a.at < 0 {
		a.at = l.now()
	}
	p := weir.OwnedPermit(&l.plain, g)
	l.recordAdmission(ctx, a.at, a, &p, g.N)
	return p.Move()
}

// recordAdmission makes p a permit that adds a record when it is released.
func (l *Limiter) recordAdmission(ctx context.Context, arrival time.Duration, a answer, p *weir.Permit, n int) {
	r := l.recordOf(ctx, arrival, a.at, a.inflight)
	r.Wait = a.waited
	l.records.to.Hold(p, n, &r, nil)
}

// recordRefusal adds the record of a request that was not admitted.
func (l *Limiter) recordRefusal(ctx context.Context, arrival time.Duration, err error) {
	if l.records == nil {
		return
	}
	r := l.recordOf(ctx, arrival, l.now(), l.State().Inflight)
	r.End, r.Wait, r.Outcome = r.Start, r.Start-r.Intended, recording.Cancelled
	if why, ok := err.(*weir.Rejection); ok {
		r.Outcome = recording.Rejected(why.Reason)
	}
	l.records.to.Add(&r)
}

// recordOf returns the beginning of a record.
func (l *Limiter) recordOf(ctx context.Context, arrival, start time.Duration, inflight int) recording.Record {
	rs, c := l.records, weir.ClassOf(ctx)
	r := recording.Record{
		Intended: arrival + rs.offset, Start: start + rs.offset, Inflight: inflight,
		Class: rs.to.Class(c.Route), Tenant: rs.to.Tenant(c.Tenant),
	}
	if at, ok := ctx.Deadline(); ok {
		r.Deadline = max(at.Sub(l.epoch)+rs.offset, 1) // 0 is none
	}
	return r
}
