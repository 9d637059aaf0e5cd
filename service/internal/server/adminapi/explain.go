package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Explanation describes the decision that a request for one token of a key would
// get. It takes no token.
type Explanation struct {
	Key     string `json:"key"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why not
	// RetryAfterMS is when it would be allowed if no other request comes. Never means
	// that it will not be allowed.
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Never        bool            `json:"never,omitempty"`
	Words        string          `json:"words"` // the decision as a sentence
	Rules        []ExplainedRule `json:"rules"` // that count for the key, in order
}

// ExplainedRule is a rule that counts for a key.
type ExplainedRule struct {
	RuleText
	Words   string `json:"words"`
	Allowed bool   `json:"allowed"` // one token is available
	// Limit is the most tokens that a key can have at once. It and the following
	// fields are 0 without a rate.
	Limit        int               `json:"limit"`
	Remaining    int               `json:"remaining"`
	Used         int               `json:"used"`
	ResetAfterMS int64             `json:"reset_after_ms"` // -1 if they will never be all available
	RetryAfterMS int64             `json:"retry_after_ms"` // 0 if it is allowed, -1 if it never will be
	Waiting      int               `json:"waiting"`        // requests
	Denied       uint64            `json:"denied"`         // since it began to use tokens
	Lease        *ExplainedLeasing `json:"lease,omitempty"`
}

// ExplainedLeasing is the state of the leases of a key.
type ExplainedLeasing struct {
	Limit    int   `json:"limit"`
	Inflight int   `json:"inflight"`
	Waiting  int   `json:"waiting"`
	Recovers int64 `json:"recovers_ms,omitempty"` // until leases are granted, after a crash
}

const maxKeyBytes = 1024

func (a *API) serveExplain(w http.ResponseWriter, r *http.Request) {
	key, ok := requestedKey(w, r)
	if !ok {
		return
	}
	x, err := a.explain(r.Context(), key)
	if err != nil {
		operator.Fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	operator.Answer(w, http.StatusOK, x)
}

// requestedKey returns the parameter key. Without one that is valid, it answers the request.
func requestedKey(w http.ResponseWriter, r *http.Request) (key string, ok bool) {
	key = strings.TrimSpace(r.URL.Query().Get("key"))
	switch {
	case key == "":
		operator.Fail(w, http.StatusBadRequest, "no key: ask for "+r.URL.Path+"?key=KEY")
		return "", false
	case len(key) > maxKeyBytes:
		operator.Fail(w, http.StatusBadRequest, fmt.Sprintf("the key has %d bytes: must be <= %d", len(key), maxKeyBytes))
		return "", false
	}
	if _, err := decider.ParseKey(key, maxKeyBytes); err != nil {
		operator.Fail(w, http.StatusBadRequest, err.Error())
		return "", false
	}
	return key, true
}

func (a *API) explain(ctx context.Context, key string) (Explanation, error) {
	s, err := a.cfg.Explain(ctx, key)
	if err != nil {
		return Explanation{}, err
	}
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
	return x, nil
}

func explained(s *decider.RuleState) ExplainedRule {
	r := ExplainedRule{
		RuleText: textOf(s.Rule), Words: words(s), Allowed: s.Allowed, Remaining: s.Remaining, Used: s.Used,
		ResetAfterMS: orNever(s.ResetAfter), Waiting: s.Waiting, Denied: s.Denied,
	}
	if l := s.Lease; l != nil {
		r.Lease = &ExplainedLeasing{l.Limit, l.Inflight, l.Waiting, ceil(l.Recovers)}
	}
	if s.Rule.Rated() {
		r.Limit = s.Rule.Limit
	}
	if !s.Allowed {
		r.RetryAfterMS = orNever(s.RetryAfter)
	}
	return r
}

// orNever is ceil, but -1 for weir.Never.
func orNever(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	return ceil(d)
}

// ceil converts a time to milliseconds, rounded up.
func ceil(d time.Duration) int64 {
	return int64(d/time.Millisecond) + min(1, int64(d%time.Millisecond))
}

// verdict describes the decision in a sentence.
func verdict(x *decider.Explanation) string {
	switch {
	case len(x.Rules) == 0 && x.Allowed:
		return "Allowed: no rule matches this key, and unmatched is allow."
	case len(x.Rules) == 0:
		return "Denied: no rule matches this key, and unmatched is deny."
	}
	for i := range x.Rules {
		r := &x.Rules[i]
		if r.Allowed || r.Rule.Shadow() {
			continue
		}
		line := ""
		if r.Waiting > 0 {
			line = fmt.Sprintf(", behind %d waiting requests", r.Waiting)
		}
		return fmt.Sprintf("Denied (%v) by the rule %q: %s%s.", x.Reason, r.Rule.Name, again(x.RetryAfter), line)
	}
	for i := range x.Rules {
		if !x.Rules[i].Allowed {
			return fmt.Sprintf("Allowed, but only because the rule %q is in shadow mode: it would deny.", x.Rules[i].Rule.Name)
		}
	}
	switch l := full(x.Rules); {
	case l != nil && l.Recovers > 0:
		return "Allowed, but no lease is granted: the server recovers from a crash for " + operator.Span(l.Recovers) + "."
	case l != nil:
		return fmt.Sprintf("Allowed, but no lease is available: %d of %d units are held.", l.Inflight, l.Limit)
	}
	return "Allowed."
}

// full returns the state of leases of which none is available, nil if there are none.
func full(rules []decider.RuleState) *decider.LeaseState {
	for i := range rules {
		if l := rules[i].Lease; l != nil && (l.Recovers > 0 || l.Inflight >= l.Limit) {
			return l
		}
	}
	return nil
}

func again(retryAfter time.Duration) string {
	switch retryAfter {
	case weir.Never:
		return "waiting does not help"
	case 0:
		return "for an unknown time"
	}
	return "allowed again in " + operator.Span(retryAfter)
}

// words describes the state of a key under a rule.
func words(s *decider.RuleState) string {
	t := textOf(s.Rule)
	var b strings.Builder
	whose := "Each matching key"
	if s.Rule.Per == string(config.PerRule) {
		whose = "All matching keys together"
	} else if t.Kind == "key" {
		whose = "This key"
	}
	if s.Rule.Rated() {
		fmt.Fprintf(&b, "%s: %s, %d of %d left", whose, t.Quota, s.Remaining, s.Rule.Limit)
		switch {
		case s.ResetAfter == weir.Never:
			b.WriteString("; used tokens do not return")
		case s.ResetAfter > 0:
			fmt.Fprintf(&b, ", all available in %s", operator.Span(s.ResetAfter))
		}
		b.WriteString(".")
	}
	if s.Waiting > 0 {
		fmt.Fprintf(&b, " %d waiting.", s.Waiting)
	}
	if s.Denied > 0 {
		fmt.Fprintf(&b, " %d denied since.", s.Denied)
	}
	if l := s.Lease; l != nil {
		fmt.Fprintf(&b, " Leases: %d of %d units held", l.Inflight, l.Limit)
		if l.Waiting > 0 {
			fmt.Fprintf(&b, ", %d waiting", l.Waiting)
		}
		b.WriteString(".")
		if l.Recovers > 0 {
			fmt.Fprintf(&b, " No new leases for %s, after a crash.", operator.Span(l.Recovers))
		}
	}
	if s.Rule.Shadow() {
		b.WriteString(" Shadow mode: it counts, but denies nothing.")
	}
	return strings.TrimSpace(b.String())
}
