package forward

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/recording"
)

// An arrival is the beginning of the record of a request.
type arrival struct {
	at       time.Duration
	record   recording.Record // with what does not change when the request goes to another origin
	recorded bool             // the record is added; forward.mu guards it
}

// arrive returns the arrival of a request at an instant. Without a Recorder, it has that alone.
func (p *Forwarder) arrive(ctx context.Context, q *Request, now time.Duration) arrival {
	a := arrival{at: now}
	to := p.cfg.Recorder
	if to == nil {
		return a
	}
	a.record = recording.Record{
		Intended: now + p.offset, Class: to.Class(cmp.Or(q.Route, q.Class.Route)), Tenant: to.Tenant(weir.ClassOf(ctx).Tenant),
	}
	if at, ok := ctx.Deadline(); ok {
		a.record.Deadline = max(at.Sub(to.Epoch()), 1) // 0 is none
	}
	return a
}

// recordRefusal adds the record of a request that the origins have not seen.
func (p *Forwarder) recordRefusal(a arrival, err error) {
	if p.cfg.Recorder == nil {
		return
	}
	r := &a.record
	r.Start = p.now() + p.offset
	r.End, r.Wait, r.Inflight, r.Outcome = r.Start, r.Start-r.Intended, p.work.held(), recording.Cancelled
	if why := admission.Rejection(err); why != nil {
		r.Outcome = recording.Rejected(why.Reason)
	}
	p.cfg.Recorder.Add(r)
}

// Record adds the record of a request that was rejected before it asked for units.
func (p *Forwarder) Record(ctx context.Context, q *Request, err error) {
	if p.cfg.Recorder != nil {
		p.recordRefusal(p.arrive(ctx, q, p.now()), err)
	}
}

// recordLeaving notes for the record that the client waits no longer. The client of a request that moves waits on.
func (f *forward) recordLeaving() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.moved && f.lacksRecordLocked() {
		f.record.Deadline = f.forwarder.now() + f.forwarder.offset
	}
}

// lacksRecordLocked reports whether the record of the forward's request is still to be added.
func (f *forward) lacksRecordLocked() bool { return f.forwarder.cfg.Recorder != nil && !f.recorded }

// recordLocked adds the record of the forward's request, whose work has ended, on its first call.
func (f *forward) recordLocked(end time.Duration, o weir.Outcome) {
	if !f.lacksRecordLocked() {
		return
	}
	f.recorded = true
	r := &f.record
	r.Start, r.End = f.begun+f.forwarder.offset, end+f.forwarder.offset
	r.Wait, r.Outcome = r.Start-r.Intended, recording.Ended(o)
	f.forwarder.cfg.Recorder.Add(r)
}
