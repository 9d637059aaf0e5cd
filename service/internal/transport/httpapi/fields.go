package httpapi

import (
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// writeFields writes RateLimit and RateLimit-Policy.
func (c *call) writeFields() {
	switch c.api.cfg.Fields {
	case FieldsNone:
	case FieldsNext:
		c.fields.Write(c.w.Header(), &c.api.policies, ratelimitfield.Next, &c.verdict, c.request.N)
	default:
		c.fields.Write(c.w.Header(), &c.api.policies, ratelimitfield.Draft, &c.verdict, c.request.N)
	}
}

// forbidStore keeps caches from repeating a grant.
func (c *call) forbidStore() {
	if !c.unstored {
		c.unstored = true
		c.w.Header()["Cache-Control"] = noStore
	}
}

// writeStep writes Weir-Degraded for a decision that is degraded.
func (c *call) writeStep(step decider.Step) {
	if step.Degraded() {
		c.w.Header()["Weir-Degraded"] = []string{step.String()}
	}
}
