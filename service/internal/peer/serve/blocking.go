package serve

import (
	"context"
	"slices"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// serveBlocking serves a request that the reader would otherwise serve itself in a goroutine. It
// reports false for others.
func (s *session) serveBlocking(f wire.Frame) bool {
	switch f.Kind {
	case wire.KindDecide, wire.KindBatch, wire.KindDescriptors, wire.KindSettle, wire.KindAcquire, wire.KindRenew, wire.KindReturn:
	default:
		return false
	}
	d := wire.Decoder{Rest: slices.Clone(f.Payload)}
	if f.Kind == wire.KindAcquire {
		if req, _, _ := d.LeaseRequest(); req.Wait {
			return false
		}
		d = wire.Decoder{Rest: slices.Clone(f.Payload)}
	}
	s.h.requests.Add(1)
	taken := place{&s.h.waiting, 1}
	if !taken.enter(s.h.cfg.MaxWaiting) {
		s.h.busy.Add(1)
		s.fail(f.ID, wire.ErrBusy, 0)
		return true
	}
	f.Payload = nil
	s.background(f.ID, 0, taken, func(ctx context.Context, started func()) {
		started()
		switch f.Kind {
		case wire.KindDecide:
			s.decideAside(ctx, f.ID, &d)
		case wire.KindBatch, wire.KindDescriptors:
			s.batchAside(ctx, f, &d)
		case wire.KindSettle:
			s.end(f.ID, func() { s.settle(f.ID, &d) })
		case wire.KindAcquire:
			s.end(f.ID, func() { s.acquire(f.ID, &d) })
		case wire.KindRenew:
			s.end(f.ID, func() { s.renew(f.ID, &d) })
		case wire.KindReturn:
			s.end(f.ID, func() { s.giveBack(f.ID, &d) })
		}
	})
	return true
}

// decideAside is decide in a goroutine.
func (s *session) decideAside(ctx context.Context, id uint64, d *wire.Decoder) {
	var req decider.Request
	if d.Request(&req); d.Failed {
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
func (s *session) batchAside(ctx context.Context, f wire.Frame, d *wire.Decoder) {
	_, all := d.Span(), d.Octet()&1 != 0
	n := d.Count()
	if n > len(d.Rest) || n > wire.MaxBatch {
		s.end(f.ID, func() { s.invalid(f.ID) })
		return
	}
	requests := s.readBatch(d, make([]decider.Request, 0, n), n)
	s.end(f.ID, func() { s.decideBatch(ctx, f, d, all, requests, make([]decider.Verdict, max(n, 1))) })
}
