package memory

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/quota"
)

// takeOwn takes the tokens of a request by the quota that it brings.
func (m *Counts) takeOwn(v *Version, a *counts.Ask) (weir.Decision, error) {
	req, at := a.Req, a.V.At
	if b, bucket := v.override(a.Match, req); b != nil {
		return quota.TakeWithin(b, bucket, at, req.N, req.Quota.Count), nil
	}
	if req.Quota.Empty() {
		return weir.Decision{RetryAfter: weir.Never}, nil
	}
	own, err := counts.CompileOwn(req.Quota)
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
	req := a.Req
	if b, bucket := v.override(a.Match, req); b != nil {
		b.Settle(bucket, a.V.Answers[0].At, req.N, 0)
		return
	}
	if own, err := counts.CompileOwn(req.Quota); err == nil {
		m.own.Return(m.own.Fingerprint(req.Key, own), own, req.N)
	}
}

// prefetch has the processor fetch the bucket of the quota that a request brings.
func (m *Counts) prefetch(a *counts.Ask) {
	if a.Set.InWindow(a.Req.Quota) || a.Req.Quota.Empty() {
		return
	}
	if own, err := counts.CompileOwn(a.Req.Quota); err == nil {
		a.Own = m.own.Fingerprint(a.Req.Key, own)
		m.own.Prefetch(a.Own)
	}
}
