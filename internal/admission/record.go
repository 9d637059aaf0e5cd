package admission

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
)

// arrive begins the record of a request.
func (v *Visit[R]) arrive(ctx context.Context) {
	to := v.door.cfg.Recorder
	v.record = recording.Record{Intended: to.Now(), Tenant: to.Tenant(weir.ClassOf(ctx).Tenant)}
	if at, ok := ctx.Deadline(); ok {
		v.record.Deadline = max(at.Sub(to.Epoch()), time.Nanosecond) // 0 is none
	}
}

// recordAdmission makes the permit one that adds the record when it is released.
func (v *Visit[R]) recordAdmission() {
	to := v.door.cfg.Recorder
	r := &v.record
	r.Start, r.Class = to.Now(), to.Class(v.class.name)
	r.Wait = r.Start - r.Intended
	to.Hold(&v.permit, v.units, r, &v.class.inflight)
}

// recordRefusal adds the record of a request that was refused.
func (v *Visit[R]) recordRefusal(err error) {
	to := v.door.cfg.Recorder
	r := v.record
	r.Start, r.Class, r.Inflight = to.Now(), to.Class(v.class.name), int(v.class.inflight.Load())
	r.End, r.Wait, r.Outcome = r.Start, r.Start-r.Intended, recording.Cancelled
	if Rejection(err) != nil {
		r.Outcome = recording.Rejected(reasonOf(err))
	}
	to.Add(&r)
}
