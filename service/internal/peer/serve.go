package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// serve serves a request. Unless it waits or takes long, the answer is ready afterwards.
func (s *session) serve(f frame) {
	s.h.requests.Add(1)
	d := decoder{b: f.payload}
	switch f.kind {
	case kindDecide:
		s.decide(f.id, &d)
	case kindWait:
		s.wait(f.id, &d)
	case kindBatch, kindDescriptors:
		s.batch(f, &d)
	case kindSettle:
		s.settle(f.id, &d)
	case kindAcquire:
		s.acquire(f.id, &d)
	case kindRenew:
		s.renew(f.id, &d)
	case kindReturn:
		s.giveBack(f.id, &d)
	case kindExchange, kindExplain, kindTop, kindCall:
		s.work(f)
	case kindCancel:
		s.waits.cancel(f.id)
	case kindPing:
		_ = s.out.send(0, kindPong, f.payload)
	default:
		s.fail(f.id, ErrUnknown, 0)
	}
}

// reply adds an answer.
func (s *session) reply(id uint64, payload []byte) {
	if s.out.send(id, kindAnswer, payload) == ErrTooLarge {
		s.fail(id, ErrTooLarge, 0)
	}
}

// fail adds an answer with an error.
func (s *session) fail(id uint64, err error, step decider.Step) {
	_ = s.out.send(id, kindFailure, appendFailure(nil, err, step)) // else the connection ends
}

// invalid is the answer to a request that the protocol does not allow.
func (s *session) invalid(id uint64) { s.fail(id, errInvalid, 0) }

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
	if s.out.open() != nil {
		return
	}
	defer s.out.close()
	s.describe(verdicts)
	v := outgoing{Verdict: &verdicts[0], id: grantID, now: s.now(&verdicts[0])}
	s.out.finish(appendVerdict(s.out.start(id, kindAnswer), &v, &s.rules))
}

func (s *session) decide(id uint64, d *decoder) {
	d.request(&s.request)
	if d.failed {
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
func (s *session) wait(id uint64, d *decoder) {
	timeout := d.span()
	var req decider.Request
	flags := d.request(&req)
	if d.failed {
		s.invalid(id)
		return
	}
	req.Key = strings.Clone(req.Key)
	if !enter(&s.h.waiting, s.h.cfg.MaxWaiting) {
		s.h.busy.Add(1)
		v := decider.Verdict{Reason: weir.QueueFull}
		v.At = s.now(&v)
		s.replyVerdict(id, []decider.Verdict{v}, nil)
		return
	}
	s.background(id, timeout, &s.h.waiting, func(ctx context.Context, started func()) {
		req.OnWait = func() { s.tellWait(id, flags&wantsWaits != 0); started() }
		var verdicts [1]decider.Verdict
		v := &verdicts[0]
		err := s.h.cfg.Decider.Wait(ctx, &req, v)
		started()
		grantID := []byte(nil)
		if err == nil {
			grantID = s.grantID(nil, &req, v)
		}
		if s.ctx.Err() != nil { // nobody takes the answer
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
	if wants && s.out.send(id, kindWaits, nil) == nil {
		s.out.flush()
	}
}

// batch decides a batch: a large one in a goroutine.
func (s *session) batch(f frame, d *decoder) {
	timeout, all := d.span(), d.octet()&1 != 0
	n := d.count()
	if n > len(d.b) { // each takes a byte or more
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
	if !enter(&s.h.working, maxWorking) {
		s.h.busy.Add(1)
		s.fail(f.id, ErrBusy, 0)
		return
	}
	rest := decoder{b: slices.Clone(d.b)}
	f.payload = nil
	s.background(f.id, timeout, &s.h.working, func(ctx context.Context, started func()) {
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
	s.describe(verdicts)
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

func (s *session) settle(id uint64, d *decoder) {
	key, grantID, n := d.text(), d.text(), d.count()
	if d.failed {
		s.invalid(id)
		return
	}
	done, err := s.h.cfg.Decider.Settle(s.ctx, strings.Clone(key), strings.Clone(grantID), n)
	if err != nil {
		s.fail(id, err, 0)
		return
	}
	s.reply(id, binary.AppendUvarint(binary.AppendUvarint(nil, uint64(done.Was)), uint64(done.Charged)))
}

// acquire takes a lease: in a goroutine if the request may wait.
func (s *session) acquire(id uint64, d *decoder) {
	req, timeout, tells := d.leaseRequest()
	if d.failed || req.N < 1 {
		s.invalid(id)
		return
	}
	req.Key = strings.Clone(req.Key)
	if !req.Wait {
		l, err := s.h.cfg.Decider.Acquire(s.ctx, req)
		s.replyLease(id, &l, err)
		return
	}
	if !enter(&s.h.waiting, s.h.cfg.MaxWaiting) {
		s.h.busy.Add(1)
		s.fail(id, weir.Reject(weir.QueueFull, 0), 0)
		return
	}
	s.background(id, timeout, &s.h.waiting, func(ctx context.Context, started func()) {
		req.OnWait = func() { s.tellWait(id, tells); started() }
		l, err := s.h.cfg.Decider.Acquire(ctx, req)
		started()
		if s.ctx.Err() != nil { // nobody takes the answer
			if err == nil {
				_ = s.h.cfg.Decider.Return(context.WithoutCancel(ctx), l.Key, l.ID, weir.Ignored)
			}
			return
		}
		s.end(id, func() { s.replyLease(id, &l, err) })
	})
}

func (s *session) replyLease(id uint64, l *decider.Lease, err error) {
	if err != nil {
		s.fail(id, err, l.Step)
		return
	}
	s.reply(id, appendLease(nil, l))
}

func (s *session) renew(id uint64, d *decoder) {
	key, lease, ttl := d.text(), d.text(), d.span()
	if d.failed {
		s.invalid(id)
		return
	}
	l, err := s.h.cfg.Decider.Renew(s.ctx, strings.Clone(key), strings.Clone(lease), ttl)
	s.replyLease(id, &l, err)
}

// giveBack ends a lease.
func (s *session) giveBack(id uint64, d *decoder) {
	key, lease, o := d.text(), d.text(), weir.Outcome(d.octet())
	if d.failed {
		s.invalid(id)
		return
	}
	if err := s.h.cfg.Decider.Return(s.ctx, strings.Clone(key), strings.Clone(lease), o); err != nil {
		s.fail(id, err, 0)
		return
	}
	s.reply(id, nil)
}

// work serves a request that takes long, in a goroutine.
func (s *session) work(f frame) {
	if !enter(&s.h.working, maxWorking) {
		s.h.busy.Add(1)
		s.fail(f.id, ErrBusy, 0)
		return
	}
	d := decoder{b: slices.Clone(f.payload)}
	timeout := d.span()
	s.background(f.id, timeout, &s.h.working, func(ctx context.Context, started func()) {
		started()
		answer, err := s.answer(ctx, f.kind, &d)
		s.end(f.id, func() {
			if err != nil {
				s.fail(f.id, err, 0)
			} else {
				s.reply(f.id, answer)
			}
		})
	})
}

// answer returns the answer to a request that takes long.
func (s *session) answer(ctx context.Context, k kind, d *decoder) ([]byte, error) {
	switch k {
	case kindExchange:
		var r decider.LeafReport
		if err := json.Unmarshal(d.b, &r); err != nil || r.Used < 0 {
			return nil, errInvalid
		}
		a, err := s.h.cfg.Decider.Assign(ctx, r)
		if err != nil {
			return nil, err
		}
		return json.Marshal(a)
	case kindExplain:
		key := d.key()
		if d.failed {
			return nil, errInvalid
		}
		x, err := s.h.cfg.Decider.Explain(ctx, key)
		if err != nil {
			return nil, err
		}
		return writeExplanation(&x)
	case kindTop:
		all, err := s.h.cfg.Decider.Top(ctx, d.count())
		if err != nil {
			return nil, err
		}
		return writeSeen(all)
	}
	call := s.h.cfg.Calls[d.text()]
	if d.failed || call == nil {
		return nil, ErrUnknown
	}
	b, err := call(ctx, s.peer, d.b)
	if err != nil {
		return nil, callError{err}
	}
	return b, nil
}
