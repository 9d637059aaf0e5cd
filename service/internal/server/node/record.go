package node

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Wait waits for missing tokens: see decider.Decider.
func (n *Node) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if n.cfg.Recorder == nil || req.N == 0 {
		return n.wait(ctx, req, v)
	}
	began := n.clock.Now()
	err := n.wait(ctx, req, v)
	if err != nil && ctx.Err() == nil {
		return err
	}
	rule := v.Rule
	if denied := v.Denied(); denied != nil {
		rule = denied.Rule
	}
	if err != nil {
		k := n.keys.Find(req.Key, n.rules.Load())
		rule = k.First()
	}
	switch {
	case rule == nil: // no request waits then
	case err != nil:
		n.cfg.Recorder.Refusal(rule.Name, n.clock.Now()-began, 0, err)
	case v.OK:
		n.cfg.Recorder.Allowed(rule.Name, v.Waited)
	default:
		n.cfg.Recorder.Refusal(rule.Name, v.Waited, 0, weir.Reject(v.Reason, 0))
	}
	return err
}
