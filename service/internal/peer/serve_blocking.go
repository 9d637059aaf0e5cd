package peer

import (
	"context"
	"slices"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// serveBlocking serves a request that the reader would otherwise serve itself in a goroutine. It
// reports false for others.
func (s *session) serveBlocking(f frame) bool {
	switch f.kind {
	case kindDecide, kindBatch, kindDescriptors, kindSettle, kindAcquire, kindRenew, kindReturn:
	default:
		return false
	}
	d := decoder{b: slices.Clone(f.payload)}
	if f.kind == kindAcquire {
		if req, _, _ := d.leaseRequest(); req.Wait {
			return false
		}
		d = decoder{b: slices.Clone(f.payload)}
	}
	s.h.requests.Add(1)
	taken := place{&s.h.waiting, 1}
	if !taken.enter(s.h.cfg.MaxWaiting) {
		s.h.busy.Add(1)
		s.fail(f.id, ErrBusy, 0)
		return true
	}
	f.payload = nil
	s.background(f.id, 0, taken, func(ctx context.Context, started func()) {
		started()
		switch f.kind {
		case kindDecide:
			s.decideAside(ctx, f.id, &d)
		case kindBatch, kindDescriptors:
			s.batchAside(ctx, f, &d)
		case kindSettle:
			s.end(f.id, func() { s.settle(f.id, &d) })
		case kindAcquire:
			s.end(f.id, func() { s.acquire(f.id, &d) })
		case kindRenew:
			s.end(f.id, func() { s.renew(f.id, &d) })
		case kindReturn:
			s.end(f.id, func() { s.giveBack(f.id, &d) })
		}
	})
	return true
}

// decideAside is decide in a goroutine.
func (s *session) decideAside(ctx context.Context, id uint64, d *decoder) {
	var req decider.Request
	if d.request(&req); d.failed {
		s.end(id, func() { s.invalid(id) })
		return
	}
	var verdicts [1]decider.Verdict
	v := &verdicts[0]
	err := s.h.cfg.Decider.Decide(ctx, &req, v)
	s.end(id, func() {
		if err != nil {
			s.fail(id, err, v.Step)
		} else {
			s.replyVerdict(id, verdicts[:], s.grantID(nil, &req, v))
		}
	})
}

// batchAside is batch in a goroutine.
func (s *session) batchAside(ctx context.Context, f frame, d *decoder) {
	_, all := d.span(), d.octet()&1 != 0
	n := d.count()
	if n > len(d.b) || n > maxBatch {
		s.end(f.id, func() { s.invalid(f.id) })
		return
	}
	requests := s.readBatch(d, make([]decider.Request, 0, n), n)
	s.end(f.id, func() { s.decideBatch(ctx, f, d, all, requests, make([]decider.Verdict, max(n, 1))) })
}
