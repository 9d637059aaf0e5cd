package proxypage

import (
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// A reading is the state at an instant.
type reading struct {
	report proxy.Report
	work   forward.Work
}

// counts has the requests of a class, or of all classes, by outcome.
type counts struct {
	requests, denied      uint64
	ended, wasted         uint64 // of the admitted ones
	waits                 [len(inflight.WaitBounds) + 1]uint64
	rejected, wouldReject map[string]uint64 // by reason
}

func countsOf(c *proxy.ClassReport) counts {
	n := counts{requests: c.Requests, denied: c.Denied, wasted: c.Wasted, waits: c.Waits, rejected: c.Rejected, wouldReject: c.WouldReject}
	for _, ended := range c.Outcomes {
		n.ended += ended
	}
	return n
}

// since returns the increase.
func (c counts) since(was counts) counts {
	more := counts{
		requests: operator.Increase(c.requests, was.requests), denied: operator.Increase(c.denied, was.denied),
		ended: operator.Increase(c.ended, was.ended), wasted: operator.Increase(c.wasted, was.wasted),
		rejected: increases(c.rejected, was.rejected), wouldReject: increases(c.wouldReject, was.wouldReject),
	}
	for i := range more.waits {
		more.waits[i] = operator.Increase(c.waits[i], was.waits[i])
	}
	return more
}

// increases returns the increases that are not zero.
func increases(now, was map[string]uint64) map[string]uint64 {
	more := map[string]uint64{}
	for why, n := range now {
		if d := operator.Increase(n, was[why]); d > 0 {
			more[why] = d
		}
	}
	return more
}

// add adds other counts.
func (c *counts) add(more counts) {
	c.requests += more.requests
	c.denied += more.denied
	c.ended += more.ended
	c.wasted += more.wasted
	for i, n := range more.waits {
		c.waits[i] += n
	}
	for why, n := range more.rejected {
		c.rejected[why] += n
	}
	for why, n := range more.wouldReject {
		c.wouldReject[why] += n
	}
}

// A Flow has requests per second.
type Flow struct {
	Requests    float64            `json:"requests"` // that arrived
	Denied      float64            `json:"denied"`   // by rules
	Rejected    float64            `json:"rejected"` // by the limit
	Reasons     map[string]float64 `json:"rejected_by_reason"`
	WouldReject float64            `json:"would_reject"` // let through in shadow mode
	// Wasted is the part of the finished requests whose client had left, or whose deadline had
	// passed, before the end; nil if none has finished.
	Wasted *float64 `json:"wasted,omitempty"`
}

func (c counts) perSecond(d time.Duration) Flow {
	f := Flow{Requests: operator.Rate(c.requests, d), Denied: operator.Rate(c.denied, d), Reasons: map[string]float64{}}
	all, would := uint64(0), uint64(0)
	for why, n := range c.rejected {
		f.Reasons[why] = operator.Rate(n, d)
		all += n
	}
	for _, n := range c.wouldReject {
		would += n
	}
	f.Rejected, f.WouldReject = operator.Rate(all, d), operator.Rate(would, d)
	if c.ended > 0 {
		f.Wasted = new(float64(c.wasted) / float64(c.ended))
	}
	return f
}

// quantiles returns bounds of the times in the queue of the admitted requests, such as "≤ 25 ms".
// It returns none if no request was admitted.
func (c *counts) quantiles(shares ...float64) (bounds []string) {
	all := uint64(0)
	for _, n := range c.waits {
		all += n
	}
	if all == 0 {
		return nil
	}
	for _, share := range shares {
		i, sum := 0, c.waits[0]
		for float64(sum) < share*float64(all) {
			i++
			sum += c.waits[i]
		}
		if i < len(inflight.WaitBounds) {
			bounds = append(bounds, "≤ "+operator.Span(inflight.WaitBounds[i]))
		} else {
			bounds = append(bounds, "> "+operator.Span(inflight.WaitBounds[i-1]))
		}
	}
	return bounds
}

// A Class is a class of routes with its recent requests.
type Class struct {
	proxy.ClassReport
	PerSecond Flow `json:"per_second"`
}

// A Rule is a rate limit with its recent decisions, per second.
type Rule struct {
	proxy.RuleReport
	AllowedRate   float64 `json:"allowed_per_second"`
	DeniedRate    float64 `json:"denied_per_second"`
	WouldDenyRate float64 `json:"would_deny_per_second"`
}

func rulesOf(now, then []proxy.RuleReport, d time.Duration) []Rule {
	was := map[string]proxy.RuleReport{}
	for _, r := range then {
		was[r.Name] = r
	}
	rate := func(now, then uint64) float64 { return operator.Rate(operator.Increase(now, then), d) }
	rules := make([]Rule, len(now))
	for i, r := range now {
		w := was[r.Name]
		rules[i] = Rule{r, rate(r.Allowed, w.Allowed), rate(r.Denied, w.Denied), rate(r.WouldDeny, w.WouldDeny)}
	}
	return rules
}

// An Origin is an origin with its recent answers, per second.
type Origin struct {
	origins.Report
	PerSecond map[string]float64 `json:"answers_per_second"` // by sign of load
}

func originsOf(now, then []origins.Report, d time.Duration) []Origin {
	was := map[string]origins.Report{}
	for _, o := range then {
		was[o.URL] = o
	}
	origins := make([]Origin, len(now))
	for i, o := range now {
		origins[i] = Origin{o, map[string]float64{}}
		for sign, n := range increases(o.Answers, was[o.URL].Answers) {
			origins[i].PerSecond[sign] = operator.Rate(n, d)
		}
	}
	return origins
}
