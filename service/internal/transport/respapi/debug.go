package respapi

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// explain is WEIR.EXPLAIN key.
func (c *conn) explain() result {
	x, err := c.api.decider.Explain(context.Background(), c.key())
	if err != nil {
		return c.fail(unavailable)
	}
	l := c.begin()
	c.text(&l, "key", x.Key)
	c.allowed(&l, x.Allowed)
	if !x.Allowed {
		c.retry(&l, x.Reason, "", x.RetryAfter)
	}
	c.field(&l, "rules")
	c.array(len(x.Rules))
	for i := range x.Rules {
		c.ruleReply(&x.Rules[i])
	}
	c.end(l)
	return resultOK
}

// ruleReply appends the state of a key under a rule.
func (c *conn) ruleReply(r *decider.RuleState) {
	l := c.begin()
	c.text(&l, "rule", r.Rule.Name)
	if r.Rule.Mode != "" {
		c.text(&l, "mode", r.Rule.Mode)
	}
	if r.Rule.Rated() {
		c.allowed(&l, r.Allowed)
		c.number(&l, "remaining", int64(r.Remaining))
		c.number(&l, "used", int64(r.Used))
		if r.ResetAfter != weir.Never {
			c.millis(&l, "reset_after_ms", r.ResetAfter)
		}
		if !r.Allowed {
			c.retry(&l, 0, "", r.RetryAfter)
		}
		c.number(&l, "waiting", int64(r.Waiting))
		c.number(&l, "denied", int64(r.Denied))
	}
	if r.Lease != nil {
		c.number(&l, "limit", int64(r.Lease.Limit))
		c.number(&l, "inflight", int64(r.Lease.Inflight))
		c.number(&l, "waiting_for_lease", int64(r.Lease.Waiting))
	}
	c.end(l)
}

// Bounds of the keys that WEIR.TOP shows.
const (
	defaultTop = 10
	maxTop     = 1000
)

// top is WEIR.TOP [n].
func (c *conn) top() result {
	n, ok := defaultTop, true
	if len(c.Args) > 1 {
		if n, ok = count(c.Args[1], 0); !ok || n > maxTop {
			return c.fail("ERR n must be a whole number from 0 to 1000")
		}
	}
	select {
	case c.api.tops <- struct{}{}:
		defer func() { <-c.api.tops }()
	default:
		return c.fail("UNAVAILABLE too many WEIR.TOP at once; try again")
	}
	c.detach() // it looks at all keys
	seen, err := c.api.decider.Top(context.Background(), n)
	if err != nil {
		return c.fail(unavailable)
	}
	c.array(len(seen))
	for i := range seen {
		s := &seen[i]
		l := c.begin()
		c.text(&l, "key", s.Key)
		c.number(&l, "allowed", int64(s.Allowed))
		c.number(&l, "denied", int64(s.Denied))
		c.number(&l, "waiting", int64(s.Waiting))
		c.field(&l, "rules")
		c.array(len(s.Rules))
		for _, r := range s.Rules {
			c.bulk(r.Name)
		}
		c.end(l)
	}
	return resultOK
}
