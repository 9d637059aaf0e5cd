package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Explanation is what one token more of a key would meet with. Nothing is taken.
type Explanation struct {
	Key     string `json:"key"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why not
	// RetryAfterMS is when it would be allowed, if nobody else comes. Never says
	// that it will not be.
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Never        bool            `json:"never,omitempty"`
	Words        string          `json:"words"` // all this as a sentence
	Rules        []ExplainedRule `json:"rules"` // that count for the key, in order
}

// ExplainedRule is a rule that counts for a key.
type ExplainedRule struct {
	RuleText
	Words   string `json:"words"`
	Allowed bool   `json:"allowed"` // one token could be had now
	// Limit is the most tokens that can be had at once; with what follows it is 0
	// without a rate.
	Limit        int               `json:"limit"`
	Remaining    int               `json:"remaining"`
	Used         int               `json:"used"`
	ResetAfterMS int64             `json:"reset_after_ms"`
	RetryAfterMS int64             `json:"retry_after_ms"` // 0 if it is allowed, -1 if it never will be
	Waiting      int               `json:"waiting"`        // in line
	Denied       uint64            `json:"denied"`         // since it began to use tokens
	Lease        *ExplainedLeasing `json:"lease,omitempty"`
}

// ExplainedLeasing is what a key has of its leases.
type ExplainedLeasing struct {
	Limit    int `json:"limit"`
	Inflight int `json:"inflight"`
	Waiting  int `json:"waiting"`
}

const maxKeyBytes = 1024

func (a *API) serveExplain(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimSpace(r.URL.Query().Get("key"))
	switch {
	case key == "":
		fail(w, http.StatusBadRequest, "no key: ask for /-/explain?key=KEY")
	case len(key) > maxKeyBytes:
		fail(w, http.StatusBadRequest, fmt.Sprintf("the key has %d bytes: must be <= %d", len(key), maxKeyBytes))
	case !decider.IsKey(key):
		fail(w, http.StatusBadRequest, "the key has control characters, or is not UTF-8: such keys are refused")
	default:
		answer(w, http.StatusOK, a.explain(key))
	}
}

func (a *API) explain(key string) Explanation {
	s, _ := a.cfg.Server.Explain(context.Background(), key) // no error: the server is in this process
	x := Explanation{Key: key, Allowed: s.Allowed, Words: verdict(&s), Rules: []ExplainedRule{}}
	if !s.Allowed {
		x.Reason = s.Reason.String()
		if x.Never = s.RetryAfter == weir.Never; !x.Never {
			x.RetryAfterMS = ceil(s.RetryAfter)
		}
	}
	for i := range s.Rules {
		x.Rules = append(x.Rules, explained(&s.Rules[i]))
	}
	return x
}

func explained(s *decider.RuleState) ExplainedRule {
	r := ExplainedRule{
		RuleText: textOf(s.Rule), Words: words(s), Allowed: s.Allowed, Remaining: s.Remaining, Used: s.Used,
		ResetAfterMS: ceil(s.ResetAfter), Waiting: s.Waiting, Denied: s.Denied,
	}
	if s.Rule.Rated() {
		r.Limit = s.Rule.Limit()
	}
	switch {
	case s.Allowed:
	case s.RetryAfter == weir.Never:
		r.RetryAfterMS = -1
	default:
		r.RetryAfterMS = ceil(s.RetryAfter)
	}
	if s.Lease != nil {
		r.Lease = &ExplainedLeasing{s.Lease.Limit, s.Lease.Inflight, s.Lease.Waiting}
	}
	return r
}

// ceil is a time in milliseconds, rounded up.
func ceil(d time.Duration) int64 {
	return int64(d/time.Millisecond) + min(1, int64(d%time.Millisecond))
}

// verdict says what a key would get.
func verdict(x *decider.Explanation) string {
	switch {
	case len(x.Rules) == 0 && x.Allowed:
		return "Allowed: no rule matches this key, and such keys may have all they want."
	case len(x.Rules) == 0:
		return "Denied: no rule matches this key, and such keys get nothing (unmatched: deny)."
	}
	for i := range x.Rules {
		r := &x.Rules[i]
		if r.Allowed || r.Rule.Mode == config.Shadow {
			continue
		}
		line := ""
		if r.Waiting > 0 {
			line = fmt.Sprintf(", behind the %d that wait", r.Waiting)
		}
		return fmt.Sprintf("Denied (%v) by the rule %q: %s%s.", x.Reason, r.Rule.Name, again(x.RetryAfter), line)
	}
	for i := range x.Rules {
		if !x.Rules[i].Allowed {
			return fmt.Sprintf("Allowed, but only because the rule %q is in shadow mode: it would deny.", x.Rules[i].Rule.Name)
		}
	}
	if l := full(x.Rules); l != nil {
		return fmt.Sprintf("Allowed, but a lease is not to be had now: %d of %d units are held.", l.Inflight, l.Limit)
	}
	return "Allowed."
}

// full returns the leases of which none is free, nil if there are no such.
func full(rules []decider.RuleState) *decider.LeaseState {
	for i := range rules {
		if l := rules[i].Lease; l != nil && l.Inflight >= l.Limit {
			return l
		}
	}
	return nil
}

func again(retryAfter time.Duration) string {
	switch retryAfter {
	case weir.Never:
		return "no wait helps"
	case 0:
		return "nobody knows until when"
	}
	return "allowed again in " + span(retryAfter)
}

// words say what a rule knows of a key.
func words(s *decider.RuleState) string {
	t := textOf(s.Rule)
	var b strings.Builder
	whose := "each key that matches"
	if s.Rule.Per == config.PerRule {
		whose = "all keys that match, together,"
	} else if t.Kind == "key" {
		whose = "this key"
	}
	if s.Rule.Rated() {
		fmt.Fprintf(&b, "It lets %s have %s: %d of %d left", whose, t.Quota, s.Remaining, s.Rule.Limit())
		if s.ResetAfter > 0 {
			fmt.Fprintf(&b, ", all back in %s", span(s.ResetAfter))
		}
		b.WriteString(".")
	}
	if s.Waiting > 0 {
		fmt.Fprintf(&b, " %d in line.", s.Waiting)
	}
	if s.Denied > 0 {
		fmt.Fprintf(&b, " %d denied meanwhile.", s.Denied)
	}
	if l := s.Lease; l != nil {
		fmt.Fprintf(&b, " Leases: %d of %d units held", l.Inflight, l.Limit)
		if l.Waiting > 0 {
			fmt.Fprintf(&b, ", %d wait", l.Waiting)
		}
		b.WriteString(".")
	}
	if s.Rule.Mode == config.Shadow {
		b.WriteString(" In shadow mode it only counts.")
	}
	return strings.TrimSpace(b.String())
}
