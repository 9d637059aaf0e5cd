package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A counter keeps what keys have used. A Server asks it about each request that brings a quota or
// whose key has a rule, and makes a verdict of what it answers.
type counter interface {
	// take takes the tokens of a request from all its buckets, or none. It appends the answers of
	// the rules to the verdict, up to the first that denies. It sets the Reason of a denial by
	// another than the rate, the Step, and Grant.At if that is not by the node's clock. If whole, it
	// has made the verdict itself.
	take(ctx context.Context, a ask) (whole bool, err error)
	// takeAll is take for requests that are not settled: it sets whole and err of each. With all set,
	// either all are granted, and the settled ones are OK, or no tokens are taken.
	takeAll(ctx context.Context, asks []asked, all bool)
	// await is take for a request that is not settled and may wait: it has a cost, and no quota. It
	// returns what has become of it under the rules that are in force then.
	await(ctx context.Context, a asked) asked
	// look sets the states of the rules of a match but for Rule and Denied, unless it has made the
	// whole explanation.
	look(ctx context.Context, rs *version, m *rules.Match, key string, states []decider.RuleState) (whole *decider.Explanation, err error)
	// redeem ends a grant of a key with the rules of a match, and charges n instead.
	redeem(ctx context.Context, rs *version, m *rules.Match, key, id string, n int) (decider.Settled, error)
}

// An ask is a request at a counter.
type ask struct {
	rules.Found
	rs  *version
	req *decider.Request
	v   *decider.Verdict // without answers
}

// asked is an ask with what has become of it.
type asked struct {
	ask
	settled bool // the verdict is made, without a counter
	whole   bool // a counter has made the verdict
	untaken bool // all or nothing: nothing was taken, because some request is denied
	err     error
}

// denied reports whether the last answer is a denial.
func (a *ask) denied() bool {
	n := len(a.v.Answers)
	switch {
	case n == 0 || a.v.Answers[n-1].OK:
		return false
	case a.req.Quota != nil:
		return !a.shadowsOwn()
	}
	return !a.v.Answers[n-1].Rule.Shadow()
}

// shadowsOwn reports whether the quota that the request brings denies nothing.
func (a *ask) shadowsOwn() bool { return a.req.Quota.Unit == 0 && a.ShadowsOwn() }

// refused reports whether the request is not granted.
func (a *asked) refused() bool {
	if a.settled || a.whole {
		return !a.v.OK
	}
	return a.err != nil || a.untaken || a.denied()
}

// answer appends an answer to the verdict.
func (a *ask) answer(d weir.Decision, r *decider.RuleRef) {
	a.v.Answers = append(a.v.Answers, decider.Answer{Decision: d, Rule: r, At: a.v.At})
}

// fail sets the error of all requests.
func fail(asks []asked, err error) {
	for i := range asks {
		asks[i].err = err
	}
}

// memory counts in this process.
type memory struct{ *Server }

func (s memory) take(_ context.Context, a ask) (whole bool, err error) {
	return false, s.takeWith(&a, nil)
}

// takeWith is take for a request that waits, unless w is nil. The error can be waiting.ErrMoved or
// that of the context.
func (s memory) takeWith(a *ask, w *wait) error {
	req, v := a.req, a.v
	if req.Quota != nil {
		d, err := s.takeOwn(a.rs, a.Found, req, v.At)
		if err == nil {
			a.answer(d, ownRule)
		}
		return err
	}
	asked := s.ownLimit(req)
	for i, of := range a.Rated {
		r := a.rs.at(of)
		own := r.OwnLimit(asked)
		d, why, redeemed := w.redeem(r)
		if !redeemed {
			d = r.take(req.Key, r.fingerprintOf(i, a.Known, req.Key), v.At, req.N, own, req.WantID)
		}
		a.answer(d, r.Ref)
		var err error
		switch {
		case d.OK, r.Mode == config.Shadow:
			continue
		case !redeemed && w != nil && d.RetryAfter != weir.Never:
			if why, err = s.waitUnder(a.rs, w, r, own, v); err == nil && why == 0 {
				continue
			}
		}
		if v.Reason = why; i > 0 {
			s.giveBack(a, v.Answers[:i])
		}
		return err
	}
	return nil
}

func (s memory) takeAll(_ context.Context, asks []asked, all bool) {
	ok := true
	for i := range asks {
		a := &asks[i]
		if !a.settled {
			a.err = s.takeWith(&a.ask, nil)
		}
		ok = ok && !a.refused()
	}
	for i := 0; all && !ok && i < len(asks); i++ {
		if a := &asks[i]; !a.settled && !a.refused() {
			s.undo(&a.ask)
		}
	}
}

func (s memory) look(ctx context.Context, rs *version, m *rules.Match, key string, states []decider.RuleState) (whole *decider.Explanation, err error) {
	if err := s.leases.Look(ctx, m, key, states); err != nil {
		return nil, err
	}
	for i, of := range m.List {
		r, st := rs.at(of), &states[i]
		bucket := r.Bucket(key)
		leased := st.Lease
		if st.Allowed = true; r.buckets != nil {
			*st = rateState(r.take(key, r.fingerprint(key), s.clock.Now(), 0, 0, false), r.buckets.Used(bucket))
		}
		st.Waiting, st.Lease = r.queue.Len(bucket), leased
	}
	return nil, nil
}

// undo returns what a request was granted.
func (s memory) undo(a *ask) {
	if a.req.Quota != nil {
		s.returnOwn(a.rs, a.Match, a.req, &a.v.Answers[0])
	} else {
		s.giveBack(a, a.v.Answers)
	}
}

// giveBack returns the tokens of answers.
func (s memory) giveBack(a *ask, answers []decider.Answer) {
	if a.req.N == 0 || len(answers) == 0 {
		return
	}
	now := s.clock.Now()
	for i, j := 0, 0; i < len(answers); i, j = i+1, j+1 {
		if j = ruleOf(&answers[i], a.Rated, j); !answers[i].OK {
			continue
		}
		r := a.rs.at(a.Rated[j])
		at := answers[i].At
		if r.Algorithm.Resets() && now-at < answers[i].ResetAfter {
			at = now // the same window; it may have begun after the instant of the answer
		}
		r.settle(a.req.Key, at, a.req.N, 0)
	}
}

// ruleOf returns the place of the rule of an answer among rules with a rate, not before a place. Rules
// without an answer are passed over: the node decides without them while it is alone.
func ruleOf(answer *decider.Answer, rated []*rules.Rule, from int) int {
	for rated[from].Ref != answer.Rule {
		from++
	}
	return from
}

// takeAlone takes by this node alone, as was chosen. A denial by the rules has the retry advice.
func (s *Server) takeAlone(a *ask, c *choice, retry time.Duration) error {
	if a.v.Step = c.step; c.byRule(a.req) {
		switch {
		case c.deny != nil:
			a.answer(weir.Decision{RetryAfter: retry}, c.deny.Ref)
			a.v.Reason = weir.Closed
		case len(a.Rated) == 0 && c.otherwise == config.AwayDeny:
			a.answer(weir.Decision{RetryAfter: retry}, ownRule)
			a.v.Reason = weir.Closed
		default:
			a.answer(weir.Decision{OK: true}, ownRule)
		}
		return nil
	}
	local := s.localAsk(a, c)
	return memory{s}.takeWith(&local, nil)
}

// awaitAlone is takeAlone for a request that may wait. If the rules decide, it does not.
func (s *Server) awaitAlone(ctx context.Context, a *asked, c *choice, retry time.Duration) {
	if c.step == decider.ByRule {
		a.err = s.takeAlone(&a.ask, c, retry)
		return
	}
	*a = memory{s}.await(ctx, *a)
	a.v.Step = c.step
}

// undoAlone returns what takeAlone has granted.
func (s *Server) undoAlone(a *ask, c *choice) {
	if !c.byRule(a.req) {
		local := s.localAsk(a, c)
		memory{s}.undo(&local)
	}
}

// localAsk returns the ask for the node's share of the rules that have one.
func (s *Server) localAsk(a *ask, c *choice) ask {
	local := *a
	local.Found, local.req = c.local, s.shareOfRequest(a.req)
	return local
}
