package peer

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// batch decides a batch: a large one in a goroutine.
func (s *session) batch(f frame, d *decoder) {
	timeout, all := d.span(), d.octet()&1 != 0
	n := d.count()
	if n > len(d.b) || n > maxBatch { // each takes a byte or more
		s.invalid(f.id)
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
		s.fail(f.id, ErrBusy, 0)
		return
	}
	rest := decoder{b: slices.Clone(d.b)}
	f.payload = nil
	s.background(f.id, timeout, taken, func(ctx context.Context, started func()) {
		started()
		requests := s.readBatch(&rest, make([]decider.Request, 0, n), n)
		s.end(f.id, func() { s.decideBatch(ctx, f, &rest, all, requests, make([]decider.Verdict, n)) })
	})
}

func (s *session) readBatch(d *decoder, to []decider.Request, n int) []decider.Request {
	for range n {
		var r decider.Request
		e := d.element()
		e.request(&r)
		to = append(to, r)
		if d.failed = d.failed || e.failed; d.failed {
			break
		}
	}
	return to
}

// decideBatch decides a batch, and adds the answer.
func (s *session) decideBatch(ctx context.Context, f frame, d *decoder, all bool, requests []decider.Request, verdicts []decider.Verdict) {
	if d.failed {
		s.invalid(f.id)
		return
	}
	decide := s.h.cfg.Decider.Batch
	var quotas []*decider.Quota
	if f.kind == kindDescriptors {
		decide = s.h.cfg.Decider.Descriptors
		for i := range requests {
			quotas = append(quotas, requests[i].Quota)
		}
	}
	ok, err := decide(ctx, requests, all, verdicts)
	if err != nil {
		s.fail(f.id, err, 0)
		return
	}
	if !s.replyBatch(f.id, ok, requests, quotas, verdicts[:len(requests)]) {
		s.fail(f.id, ErrTooLarge, 0)
	}
}

// replyBatch adds the verdicts. It reports false if they are too large for a frame.
func (s *session) replyBatch(id uint64, ok bool, requests []decider.Request, quotas []*decider.Quota, verdicts []decider.Verdict) bool {
	if s.out.open() != nil {
		return true
	}
	defer s.out.close()
	s.tellRules(verdicts)
	allowed := byte(0)
	if ok {
		allowed = 1
	}
	b := append(s.out.start(id, kindAnswer), allowed)
	b = binary.AppendUvarint(b, uint64(len(verdicts)))
	fits, grantID, now := true, []byte(nil), time.Duration(0)
	for i := range verdicts {
		if i == 0 || s.h.cfg.Now == nil {
			now = s.now(&verdicts[i])
		}
		v := outgoing{Verdict: &verdicts[i], now: now}
		if v.id = s.grantID(grantID[:0], &requests[i], v.Verdict); v.id != nil {
			grantID = v.id
		}
		v.dropped = quotas != nil && quotas[i] != nil && requests[i].Quota == nil
		at := len(b)
		b, fits = endElement(appendVerdict(beginElement(b), &v, &s.rules), at)
		if !fits || len(b)-s.out.begin > MaxFrame+lengthSize {
			s.out.drop(b)
			return false
		}
	}
	_, fits = s.out.finish(b)
	return fits
}
