package serve

import (
	"context"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// serve serves a request. Unless it waits or takes long, the answer is ready afterwards.
func (s *session) serve(f wire.Frame) {
	s.h.requests.Add(1)
	d := wire.Decoder{Rest: f.Payload}
	switch f.Kind {
	case wire.KindDecide:
		s.decide(f.ID, &d)
	case wire.KindWait:
		s.wait(f.ID, &d)
	case wire.KindBatch, wire.KindDescriptors:
		s.batch(f, &d)
	case wire.KindSettle:
		s.settle(f.ID, &d)
	case wire.KindAcquire:
		s.acquire(f.ID, &d)
	case wire.KindRenew:
		s.renew(f.ID, &d)
	case wire.KindReturn:
		s.giveBack(f.ID, &d)
	case wire.KindExchange, wire.KindExplain, wire.KindTop, wire.KindCall:
		s.work(f)
	case wire.KindCancel:
		s.waits.cancel(f.ID)
	case wire.KindPing:
		_ = s.out.Send(0, wire.KindPong, f.Payload)
	default:
		s.fail(f.ID, wire.ErrUnknown, 0)
	}
}

// reply adds an answer.
func (s *session) reply(id uint64, payload []byte) {
	if s.out.Send(id, wire.KindAnswer, payload) == wire.ErrTooLarge {
		s.fail(id, wire.ErrTooLarge, 0)
	}
}

// fail adds an answer with an error.
func (s *session) fail(id uint64, err error, step decider.Step) {
	if r, ok := err.(*weir.Rejection); ok && r.Reason == weir.Recovering && s.peer.Revision < 1 {
		err = weir.Reject(weir.OverLimit, r.RetryAfter)
	}
	_ = s.out.Send(id, wire.KindFailure, wire.AppendFailure(nil, err, step)) // else the connection ends
}

// invalid is the answer to a request that the protocol does not allow.
func (s *session) invalid(id uint64) { s.fail(id, wire.ErrInvalid, 0) }

func (s *session) now(v *decider.Verdict) time.Duration {
	if s.h.cfg.Now == nil {
		return v.At
	}
	return s.h.cfg.Now()
}

// grantID returns the id of a grant in memory that is used again.
func (s *session) grantID(b []byte, req *decider.Request, v *decider.Verdict) []byte {
	if !req.WantID || !v.OK || v.Grant.N == 0 {
		return nil
	}
	return s.h.cfg.Decider.AppendGrantID(b, v.Grant, req.Key)
}

// replyVerdict adds an answer with a verdict.
func (s *session) replyVerdict(id uint64, verdicts []decider.Verdict, grantID []byte) {
	if s.out.Open() != nil {
		return
	}
	defer s.out.Close()
	s.rules.Tell(s.out, verdicts)
	v := wire.Outgoing{Verdict: &verdicts[0], ID: grantID, Now: s.now(&verdicts[0])}
	s.out.Finish(wire.AppendVerdict(s.out.Start(id, wire.KindAnswer), &v, &s.rules))
}

func (s *session) decide(id uint64, d *wire.Decoder) {
	d.Request(&s.request)
	if d.Failed {
		s.invalid(id)
		return
	}
	v := &s.verdicts[0]
	if err := s.h.cfg.Decider.Decide(s.ctx, &s.request, v); err != nil {
		s.fail(id, err, v.Step)
		return
	}
	grantID := s.grantID(s.id[:0], &s.request, v)
	if grantID != nil {
		s.id = grantID
	}
	s.replyVerdict(id, s.verdicts[:1], grantID)
}

// wait runs a request that may wait in a goroutine.
func (s *session) wait(id uint64, d *wire.Decoder) {
	timeout := d.Span()
	var req decider.Request
	flags := d.Request(&req)
	if d.Failed {
		s.invalid(id)
		return
	}
	req.Key = strings.Clone(req.Key)
	taken := place{&s.h.waiting, 1}
	if !taken.enter(s.h.cfg.MaxWaiting) {
		s.h.busy.Add(1)
		v := decider.Verdict{Reason: weir.QueueFull}
		v.At = s.now(&v)
		s.replyVerdict(id, []decider.Verdict{v}, nil)
		return
	}
	s.background(id, timeout, taken, func(ctx context.Context, started func()) {
		req.OnWait = func() { s.tellWait(id, flags&wire.WantsWaits != 0); started() }
		var verdicts [1]decider.Verdict
		v := &verdicts[0]
		err := s.h.cfg.Decider.Wait(ctx, &req, v)
		started()
		grantID := []byte(nil)
		if err == nil {
			grantID = s.grantID(nil, &req, v)
		}
		if s.ctx.Err() != nil { // the peer is gone
			if grantID != nil {
				_, _ = s.h.cfg.Decider.Settle(context.WithoutCancel(ctx), req.Key, string(grantID), 0)
			}
			return
		}
		s.end(id, func() {
			if err != nil {
				s.fail(id, err, v.Step)
			} else {
				s.replyVerdict(id, verdicts[:], grantID)
			}
		})
	})
}

// tellWait tells the peer that a request has begun to wait.
func (s *session) tellWait(id uint64, wants bool) {
	if wants && s.out.Send(id, wire.KindWaits, nil) == nil {
		s.out.Flush()
	}
}
