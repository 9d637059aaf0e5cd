package serve

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// batch decides a batch: a large one in a goroutine.
func (s *session) batch(f wire.Frame, d *wire.Decoder) {
	timeout, all := d.Span(), d.Octet()&1 != 0
	n := d.Count()
	if n > len(d.Rest) || n > wire.MaxBatch { // each takes a byte or more
		s.invalid(f.ID)
		return
	}
	if n <= inlineBatch {
		s.requests = s.readBatch(d, s.requests[:0], n)
		if len(s.verdicts) < n {
			s.verdicts = make([]decider.Verdict, inlineBatch)
		}
		s.decideBatch(s.ctx, f, d, all, s.requests, s.verdicts[:max(n, 1)])
		return
	}
	taken := place{&s.h.working, 1 + int64(n)/batchPart}
	if !taken.enter(maxWorking) {
		s.h.busy.Add(1)
		s.fail(f.ID, wire.ErrBusy, 0)
		return
	}
	rest := wire.Decoder{Rest: slices.Clone(d.Rest)}
	f.Payload = nil
	s.background(f.ID, timeout, taken, func(ctx context.Context, started func()) {
		started()
		requests := s.readBatch(&rest, make([]decider.Request, 0, n), n)
		s.end(f.ID, func() { s.decideBatch(ctx, f, &rest, all, requests, make([]decider.Verdict, n)) })
	})
}

func (s *session) readBatch(d *wire.Decoder, to []decider.Request, n int) []decider.Request {
	for range n {
		var r decider.Request
		e := d.Element()
		e.Request(&r)
		to = append(to, r)
		if d.Failed = d.Failed || e.Failed; d.Failed {
			break
		}
	}
	return to
}

// decideBatch decides a batch, and adds the answer.
func (s *session) decideBatch(ctx context.Context, f wire.Frame, d *wire.Decoder, all bool, requests []decider.Request, verdicts []decider.Verdict) {
	if d.Failed {
		s.invalid(f.ID)
		return
	}
	decide := s.h.cfg.Decider.Batch
	var quotas []*decider.Quota
	if f.Kind == wire.KindDescriptors {
		decide = s.h.cfg.Decider.Descriptors
		for i := range requests {
			quotas = append(quotas, requests[i].Quota)
		}
	}
	ok, err := decide(ctx, requests, all, verdicts)
	if err != nil {
		s.fail(f.ID, err, 0)
		return
	}
	if !s.replyBatch(f.ID, ok, requests, quotas, verdicts[:len(requests)]) {
		s.fail(f.ID, wire.ErrTooLarge, 0)
	}
}

// replyBatch adds the verdicts. It reports false if they are too large for a frame.
func (s *session) replyBatch(id uint64, ok bool, requests []decider.Request, quotas []*decider.Quota, verdicts []decider.Verdict) bool {
	if s.out.Open() != nil {
		return true
	}
	defer s.out.Close()
	s.rules.Tell(s.out, verdicts)
	allowed := byte(0)
	if ok {
		allowed = 1
	}
	b := append(s.out.Start(id, wire.KindAnswer), allowed)
	b = binary.AppendUvarint(b, uint64(len(verdicts)))
	fits, grantID, now := true, []byte(nil), time.Duration(0)
	for i := range verdicts {
		if i == 0 || s.h.cfg.Now == nil {
			now = s.now(&verdicts[i])
		}
		v := wire.Outgoing{Verdict: &verdicts[i], Now: now}
		if v.ID = s.grantID(grantID[:0], &requests[i], v.Verdict); v.ID != nil {
			grantID = v.ID
		}
		v.Dropped = quotas != nil && quotas[i] != nil && requests[i].Quota == nil
		at := len(b)
		b, fits = wire.EndElement(wire.AppendVerdict(wire.BeginElement(b), &v, &s.rules), at)
		if !fits || !s.out.Fits(b) {
			s.out.Drop(b)
			return false
		}
	}
	_, fits = s.out.Finish(b)
	return fits
}
