package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/settings"
)

// An Explanation says what the proxy would do with a request now.
type Explanation struct {
	proxyrule.Explanation
	Rules []ExplainedRule `json:"rules"` // in the order of the file

	Verdict Verdict `json:"verdict"`
	Status  int     `json:"status,omitempty"` // of the proxy's own answer; 0 if the request is forwarded
	Words   string  `json:"words"`            // the verdict as a sentence

	LimitOf string         `json:"limit_of"` // the class that has the limit of the request
	State   *limits.Report `json:"state"`    // of that limit
	Total   *limits.Report `json:"total,omitempty"`

	Pressure *plan.PressureReport `json:"pressure,omitempty"`
}

// A Verdict names the action of the proxy for a request.
type Verdict string

// The Verdicts.
const (
	Forward Verdict = "forward"
	Delay   Verdict = "wait" // and forward it
	Deny    Verdict = "deny" // by a rule
	Reject  Verdict = "reject"
)

// An ExplainedRule is a rule, and its bucket, or its requests in flight, for a request.
type ExplainedRule struct {
	proxyrule.RuleExplanation
	// The following fields are 0 if the rule does not apply.
	Burst        int    `json:"burst"`
	Limit        int    `json:"limit,omitempty"`          // of requests in flight
	Remaining    int    `json:"remaining"`                // tokens, or requests
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // until there is a token; -1: never
	ResetAfterMS int64  `json:"reset_after_ms"`           // until there are all; -1: never
	Words        string `json:"words"`

	wait, maxWait time.Duration
}

// Explain says what the proxy would do with a request. It assumes that the body is as long as the
// Content-Length. The request takes no token and no unit, and does not go to the origin.
func (p *Proxy) Explain(r *http.Request) Explanation {
	r = p.trust.Identify(r, new(clients.Client))
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.plan.Load()
	c, _ := pl.Classify(r)
	x := Explanation{
		Explanation: pl.Rules.Explain(r), LimitOf: c.Limiter.Name, State: c.Limiter.Report(), Pressure: pl.Pressure(), Rules: []ExplainedRule{},
	}
	if pl.Shadow {
		x.Mode = proxyrule.Shadow
	}
	if pl.Total != nil {
		x.Total = pl.Total.Report()
	}
	for i, static := range x.Explanation.Rules {
		if pl.Shadow {
			static.Mode = proxyrule.Shadow
		}
		rule := &pl.Rules.Rules[i]
		x.Rules = append(x.Rules, explainRule(static, rule, pl.Buckets[rule.Name], r))
	}
	x.judge(c, r)
	return x
}

func explainRule(static proxyrule.RuleExplanation, rule *proxyrule.Rule, b *proxyrule.Buckets, r *http.Request) ExplainedRule {
	x := ExplainedRule{RuleExplanation: static, maxWait: rule.MaxWait}
	if !x.Applies {
		x.Words = "Does not apply: " + x.Why + "."
		return x
	}
	now := rule.Look(b, r)
	if x.Limit, x.Remaining = rule.Limit, now.Remaining; x.Limit > 0 {
		x.Words = fmt.Sprintf("%d of %d requests in flight.", max(x.Limit-x.Remaining, 0), x.Limit)
		return x
	}
	quota := rule.Quota()
	x.Burst, x.Remaining, x.wait = quota.Burst(), now.Remaining, now.RetryAfter
	x.RetryAfterMS, x.ResetAfterMS = milliseconds(now.RetryAfter), milliseconds(now.ResetAfter)
	x.Words = fmt.Sprintf("%s: %d of %d tokens left", rule.Rate, x.Remaining, x.Burst)
	switch {
	case x.wait == weir.Never, now.ResetAfter == weir.Never:
		x.Words += ", none is refilled"
	case x.wait > 0:
		x.Words += ", the next one in " + span(x.wait)
	case now.ResetAfter > 0:
		x.Words += ", all available in " + span(now.ResetAfter)
	}
	x.Words += "."
	return x
}

// judge finds the verdict: the first part on the way of a request that stops it decides.
func (x *Explanation) judge(c *plan.Class, r *http.Request) {
	x.Verdict, x.Words = Forward, "Forwarded to the origin."
	j := judge{Explanation: x}
	if j.request(c, r) || j.rates() || j.limits() {
		return
	}
	if len(j.waits) > 0 {
		x.Verdict, x.Words = Delay, "Waits "+strings.Join(j.waits, ", then ")+"; then it is forwarded to the origin."
	}
	if len(j.shadow) > 0 {
		x.Words = "Forwarded, but only because of shadow mode. Otherwise: " + strings.Join(j.shadow, " ")
	}
	x.Words += x.Pressure.Words()
	if c.Cache != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		x.Words += " If the cache has its response, the cache answers instead, without the limit."
	}
}

// A judge collects what happens to a request until a part stops it.
type judge struct {
	*Explanation
	waits  []string
	shadow []string // what would stop the request, but for shadow mode
}

// stop sets the verdict, unless the part is in shadow mode.
func (j *judge) stop(mode proxyrule.Mode, v Verdict, status int, format string, args ...any) (stopped bool) {
	words := fmt.Sprintf(format, args...)
	if mode == proxyrule.Shadow {
		j.shadow = append(j.shadow, words)
		return false
	}
	j.Verdict, j.Status, j.Words = v, status, words
	return true
}

// request judges by the method and the length of the body.
func (j *judge) request(c *plan.Class, r *http.Request) (stopped bool) {
	if r.Method == http.MethodConnect {
		return j.stop(proxyrule.Enforce, Reject, http.StatusMethodNotAllowed, "Rejected with 405: a reverse proxy serves no CONNECT.")
	}
	return c.MaxBody >= 0 && r.ContentLength > c.MaxBody && j.stop(j.Mode, Reject, http.StatusRequestEntityTooLarge,
		"Rejected with 413: the body has %d bytes, and the class allows %d.", r.ContentLength, c.MaxBody)
}

// rates judges by the rules.
func (j *judge) rates() (stopped bool) {
	for i := range j.Rules {
		switch rule := &j.Rules[i]; {
		case rule.Limit > 0 && rule.Remaining == 0:
			if j.stop(rule.Mode, Deny, http.StatusTooManyRequests, "Denied with 429 by the rule %q: %d of %d requests are in flight.", rule.Name, rule.Limit, rule.Limit) {
				return true
			}
		case rule.wait == 0:
		case rule.wait <= rule.maxWait && rule.Mode != proxyrule.Shadow:
			j.waits = append(j.waits, fmt.Sprintf("%s for a token of the rule %q", span(rule.wait), rule.Name))
		case j.stop(rule.Mode, Deny, http.StatusTooManyRequests, "Denied with 429 by the rule %q: a token is %s.", rule.Name, availability(rule.wait)):
			return true
		}
	}
	return false
}

// limits judges by the limit of the class, and that of all classes.
func (j *judge) limits() (stopped bool) {
	for _, of := range []struct {
		name string
		*limits.Report
	}{{j.LimitOf, j.State}, {proxyrule.TotalName, j.Total}} {
		switch l := of.Report; {
		case l == nil, l.Inflight < l.LimitNow && l.Waiting == 0:
		case l.Waiting < l.Queue && j.Mode != proxyrule.Shadow:
			j.waits = append(j.waits, fmt.Sprintf("in the queue of the limit %s, %d in front of it, %s", of.name, l.Waiting, atMost(l.MaxWait)))
		case j.stop(j.Mode, Reject, http.StatusServiceUnavailable,
			"Rejected with 503: the limit %s is used up, with %d of %d in flight and %d of %d waiting.", of.name, l.Inflight, l.LimitNow, l.Waiting, l.Queue):
			return true
		}
	}
	return false
}

func atMost(d settings.Duration) string {
	if d == 0 {
		return "as long as its client waits"
	}
	return "for at most " + span(time.Duration(d))
}

// availability says when there is a token.
func availability(wait time.Duration) string {
	if wait == weir.Never {
		return "never available"
	}
	return "available in " + span(wait)
}

// milliseconds rounds up; weir.Never is -1.
func milliseconds(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// span formats a time for reading.
func span(d time.Duration) string {
	if d < time.Second {
		return cmp.Or(d.Round(time.Millisecond), time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
