package server

import (
	"context"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Explain reports what a request for the key would get: see decider.Decider. The upstream tells
// it; if it does not answer, the node tells its share.
func (t *Tier) Explain(ctx context.Context, key string) (x decider.Explanation, err error) {
	if len(t.keys.RulesOf(key, t.rules.Load().Set).List) == 0 {
		return t.Server.Explain(ctx, key)
	}
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		x, err = t.cfg.Upstream.Explain(ctx, key)
		return err
	})
	if err == errUpstream {
		return t.Server.Explain(ctx, key)
	}
	return x, err
}
