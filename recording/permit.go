package recording

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// A heldPermit owns the permit that a caller holds, in place of permit.
type heldPermit struct {
	self     weir.Owner // what the permit of the caller points to
	recorder *Recorder  // nil after Release
	permit   weir.Permit
	record   Record
	inflight *atomic.Int64 // counts units, if not nil
}

// Hold makes p, which may hold nothing, a permit for n units that adds rec when it is released, with the
// outcome, and the time of the release or the Report as its End. If inflight is not nil, it counts the units of
// such permits, and Hold sets Inflight. Limiters call Hold.
func (r *Recorder) Hold(p *weir.Permit, n int, rec *Record, inflight *atomic.Int64) {
	h := r.permits.Get().(*heldPermit)
	h.recorder, h.permit, h.record, h.inflight = r, p.Move(), *rec, inflight
	h.record.End = 0
	if inflight != nil {
		h.record.Inflight = int(inflight.Add(int64(n)))
	}
	*p = weir.OwnedPermit(&h.self, weir.Grant{N: n})
}

// Use changes the units of the permit.
func (h *heldPermit) Use(g weir.Grant, n int) int {
	h.permit.Use(n)
	if h.inflight != nil {
		h.inflight.Add(int64(n - g.N))
	}
	return n
}

// Report notes the end of the work.
func (h *heldPermit) Report(g weir.Grant, o weir.Outcome) weir.Grant {
	h.end()
	h.permit.Report(o)
	return g
}

// Release adds the record, and gives the units back.
func (h *heldPermit) Release(g weir.Grant, o weir.Outcome) {
	r := h.recorder
	if r == nil {
		panic("recording: a copy of a Permit has been released")
	}
	h.end()
	h.record.Outcome = Ended(o)
	r.Add(&h.record)
	if h.inflight != nil {
		h.inflight.Add(int64(-g.N))
	}
	p := h.permit.Move()
	h.recorder = nil
	r.permits.Put(h)
	p.Release(o)
}

// end sets the end of the record, unless it is set.
func (h *heldPermit) end() {
	if h.record.End == 0 {
		h.record.End = max(h.recorder.Now(), time.Nanosecond)
	}
}
