package memory

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
)

// CompileOwn returns a quota as its buckets need it, or decider.ErrQuota.
func CompileOwn(q *decider.Quota) (quota.Own, error) {
	interval, err := q.Interval()
	return quota.Own{Interval: interval, Limit: q.Limit()}, err
}

// takeOwn takes the tokens of a request by the quota that it brings.
func (m *Counts) takeOwn(v *Version, a *counts.Ask) (weir.Decision, error) {
	req, at := a.Req, a.V.At
	if b, bucket := v.override(a.Match, req); b != nil {
		return quota.TakeWithin(b, bucket, at, req.N, req.Quota.Count), nil
	}
	if req.Quota.Empty() {
		return weir.Decision{RetryAfter: weir.Never}, nil
	}
	own, err := CompileOwn(req.Quota)
	if err != nil {
		return weir.Decision{}, err
	}
	print := a.Own
	if print == 0 {
		print = m.own.Fingerprint(req.Key, own)
	}
	return m.own.Take(print, own, at, req.N), nil
}

// returnOwn returns the tokens that takeOwn gave.
func (m *Counts) returnOwn(v *Version, a *counts.Ask) {
	req, answer := a.Req, &a.V.Answers[0]
	if !answer.OK || req.N == 0 { // only the shadow mode allowed the request, or it took nothing
		return
	}
	if b, bucket := v.override(a.Match, req); b != nil {
		b.Settle(bucket, answer.At, req.N, 0)
		return
	}
	if own, err := CompileOwn(req.Quota); err == nil {
		m.own.Return(m.own.Fingerprint(req.Key, own), own, req.N)
	}
}

// prefetch has the processor fetch the bucket of the quota that a request brings.
func (m *Counts) prefetch(a *counts.Ask) {
	if a.Set.InWindow(a.Req.Quota) || a.Req.Quota.Empty() {
		return
	}
	if own, err := CompileOwn(a.Req.Quota); err == nil {
		a.Own = m.own.Fingerprint(a.Req.Key, own)
		m.own.Prefetch(a.Own)
	}
}
