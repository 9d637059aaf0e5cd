package node

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Wait waits for missing tokens: see decider.Decider.
func (n *Node) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	began := n.clock.Now()
	err := n.wait(ctx, req, v)
	if n.cfg.Recorder == nil || req.N == 0 || err != nil && ctx.Err() == nil {
		return err
	}
	rule := v.Rule
	if err != nil {
		k := n.keys.Find(req.Key, n.rules.Load())
		rule = k.First()
	}
	switch denied := v.Denied(); {
	case rule == nil: // for keys without a rule, no request waits
	case err != nil:
		n.cfg.Recorder.Refusal(rule.Name, n.clock.Now()-began, 0, err)
	case v.OK:
		n.cfg.Recorder.Allowed(rule.Name, v.Waited)
	case denied != nil:
		n.cfg.Recorder.Refusal(denied.Rule.Name, v.Waited, 0, &weir.Rejection{Reason: v.Reason})
	default:
		n.cfg.Recorder.Refusal(rule.Name, v.Waited, 0, &weir.Rejection{Reason: v.Reason})
	}
	return err
}
