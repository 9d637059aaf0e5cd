// Package atmost decides requests that take as many of their tokens as there are.
package atmost

import (
	"context"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/batchjson"
)

// maxParts bounds the requests for a part of the cost. Another is needed only if other requests take
// tokens meanwhile.
const maxParts = 4

// part sets a request to as many of most tokens as there are after a look, which said v, and after
// others have taken some. It reports whether there were any.
func part(req *decider.Request, v *decider.Verdict, most, taken int, id bool) (some bool) {
	req.N, req.WantID = most, id
	if remaining, ok := v.Remaining(); !v.OK { // the denial tells when one token comes
		req.N = 1
	} else if ok {
		req.N = min(most, max(remaining-taken, 1))
	}
	return v.OK
}

// Decide asks for as many of the tokens of a request as there are. It sets N to that.
func Decide(ctx context.Context, d decider.Decider, req *decider.Request, v *decider.Verdict) error {
	most := req.N
	for range maxParts {
		req.N, req.WantID = 0, false
		if err := d.Decide(ctx, req, v); err != nil || most == 0 {
			return err
		}
		some := part(req, v, most, 0, true)
		if err := d.Decide(ctx, req, v); err != nil || v.OK || !some {
			return err
		}
	}
	return nil
}

// A batch is a Batch that is being decided.
type batch struct {
	*batchjson.Batch
	ctx      context.Context
	decider  decider.Decider
	verdicts []decider.Verdict
}

// DecideEach decides the requests of a batch. Those with at_most get what a look has told; if other
// requests have taken that meanwhile, they ask again.
func DecideEach(ctx context.Context, d decider.Decider, of *batchjson.Batch, verdicts []decider.Verdict) (ok bool, err error) {
	b := &batch{of, ctx, d, verdicts}
	again, err := b.look(b.AtMost)
	if err != nil {
		return false, err
	}
	if ok, err = b.decider.Batch(ctx, b.Requests, b.All, b.verdicts); err != nil || ok {
		return ok, err
	}
	for range maxParts - 1 {
		denied := b.denied(again)
		if len(denied) == 0 {
			break
		}
		// The verdicts so far stand if an error ends this.
		if again, err = b.look(denied); err != nil {
			break
		}
		if err = b.some(denied); err != nil { // the others, too: their denial tells when one token comes
			break
		}
	}
	for i := range b.Requests {
		if !b.verdicts[i].OK {
			return false, nil
		}
	}
	return true, nil
}

// denied returns the partial requests that are denied.
func (b *batch) denied(of []batchjson.Partial) (denied []batchjson.Partial) {
	for _, p := range of {
		if !b.verdicts[p.Index].OK {
			denied = append(denied, p)
		}
	}
	return denied
}

// look sets partial requests to what there is, and returns those for which there is some.
func (b *batch) look(all []batchjson.Partial) (some []batchjson.Partial, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	reqs, verdicts := make([]decider.Request, len(all)), make([]decider.Verdict, len(all))
	for i, p := range all {
		reqs[i] = decider.Request{Key: b.Requests[p.Index].Key}
	}
	if _, err := b.decider.Batch(b.ctx, reqs, false, verdicts); err != nil {
		return nil, err
	}
	taken := map[string]int{} // by the requests before
	for i, p := range all {
		req := &b.Requests[p.Index]
		if part(req, &verdicts[i], p.N, taken[req.Key], b.IDs) {
			some = append(some, p)
		}
		taken[req.Key] += req.N
	}
	return some, nil
}

// some decides the given partial requests of a batch.
func (b *batch) some(which []batchjson.Partial) error {
	reqs, verdicts := make([]decider.Request, len(which)), make([]decider.Verdict, len(which))
	for i, p := range which {
		reqs[i] = b.Requests[p.Index]
	}
	if _, err := b.decider.Batch(b.ctx, reqs, false, verdicts); err != nil {
		return err
	}
	for i, p := range which {
		b.verdicts[p.Index] = verdicts[i]
	}
	return nil
}
