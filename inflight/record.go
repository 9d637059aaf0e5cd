package inflight

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
)

// records makes the records of a Limiter.
type records struct {
	to     *recording.Recorder
	offset time.Duration // of the Limiter's epoch from that of the Recorder
	owners sync.Pool     // of *recordedOwner
}

func newRecords(to *recording.Recorder, epoch time.Time) *records {
	rs := &records{to: to, offset: epoch.Sub(to.Epoch())}
	rs.owners.New = func() any {
		o := &recordedOwner{}
		o.self = o
		return o
	}
	return rs
}

// A recordedOwner owns the permit that a caller holds, in place of owner, which has the units. They have
// the same weir.Grant.
type recordedOwner struct {
	self   weir.Owner // what the permit points to
	owner  *weir.Owner
	of     *Limiter // nil after Release
	record recording.Record
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
	return l.recordAdmission(ctx, a.at, a, &l.plain, g)
}

// recordAdmission returns a permit of owner that adds a record when it is released.
func (l *Limiter) recordAdmission(ctx context.Context, arrival time.Duration, a answer, owner *weir.Owner, g weir.Grant) weir.Permit {
	o := l.records.owners.Get().(*recordedOwner)
	o.of, o.owner = l, owner
	l.records.describe(&o.record, ctx, l.epoch)
	o.record.Intended, o.record.Start = arrival+l.records.offset, a.at+l.records.offset
	o.record.Wait, o.record.End, o.record.Inflight = a.waited, 0, a.inflight
	return weir.OwnedPermit(&o.self, g)
}

// recordRefusal adds the record of a request that was not admitted.
func (l *Limiter) recordRefusal(ctx context.Context, arrival time.Duration, err error) {
	rs := l.records
	if rs == nil {
		return
	}
	var r recording.Record
	rs.describe(&r, ctx, l.epoch)
	r.Intended, r.Start, r.Inflight = arrival+rs.offset, l.now()+rs.offset, l.State().Inflight
	r.End, r.Wait, r.Outcome = r.Start, r.Start-r.Intended, recording.Cancelled
	if why, ok := err.(*weir.Rejection); ok {
		r.Outcome = recording.Rejected(why.Reason)
	}
	rs.to.Add(&r)
}

// describe sets what the context of a request says about it.
func (rs *records) describe(r *recording.Record, ctx context.Context, epoch time.Time) {
	c := weir.ClassOf(ctx)
	r.Class, r.Tenant, r.Deadline = rs.to.Class(c.Route), rs.to.Tenant(c.Tenant), 0
	if at, ok := ctx.Deadline(); ok {
		r.Deadline = max(at.Sub(epoch)+rs.offset, 1) // 0 is none
	}
}

// Use is that of the owner.
func (o *recordedOwner) Use(g weir.Grant, n int) int { return (*o.owner).Use(g, n) }

// Release adds the record, and gives the units back.
func (o *recordedOwner) Release(g weir.Grant, outcome weir.Outcome) {
	l, owner := o.of, o.owner
	if l == nil {
		panic("inflight: a copy of a Permit has been released")
	}
	if o.record.End == 0 {
		o.record.End = l.now() + l.records.offset
	}
	o.record.Outcome = recording.Ended(outcome)
	l.records.to.Add(&o.record)
	o.of = nil
	l.records.owners.Put(o)
	(*owner).Release(g, outcome)
}

// Report notes the end of the work, and tells the owner.
func (o *recordedOwner) Report(g weir.Grant, outcome weir.Outcome) weir.Grant {
	if o.record.End == 0 {
		o.record.End = o.of.now() + o.of.records.offset
	}
	return (*o.owner).(*owner).Report(g, outcome)
}
