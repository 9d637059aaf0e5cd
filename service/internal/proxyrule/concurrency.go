package proxyrule

import (
	"cmp"

	"github.com/weir-go/weir/limit"
)

// Over returns l with its empty fields taken from base.
func (l Concurrency) Over(base Concurrency) Concurrency {
	l.Limit, l.Queue, l.MaxWait = cmp.Or(l.Limit, base.Limit), cmp.Or(l.Queue, base.Queue), cmp.Or(l.MaxWait, base.MaxWait)
	l.SlowStart = cmp.Or(l.SlowStart, base.SlowStart)
	l.InitialLimit = cmp.Or(l.InitialLimit, base.InitialLimit)
	l.MinLimit, l.MaxLimit = cmp.Or(l.MinLimit, base.MinLimit), cmp.Or(l.MaxLimit, base.MaxLimit)
	l.MaxHealthyLatency = cmp.Or(l.MaxHealthyLatency, base.MaxHealthyLatency)
	return l
}

// Config returns the configuration of an adaptive limit. Bounds that come from different
// places may conflict: then the upper bound counts.
func (l Concurrency) Config() limit.Config {
	cfg := limit.Config{Initial: l.InitialLimit, Min: l.MinLimit, Max: l.MaxLimit, MaxHealthyLatency: l.MaxHealthyLatency}
	if cfg.Max > 0 {
		cfg.Min = min(cfg.Min, cfg.Max)
		cfg.Initial = min(cfg.Initial, cfg.Max)
	}
	if cfg.Initial > 0 {
		cfg.Initial = max(cfg.Initial, cfg.Min)
	}
	return cfg
}
