// Package counts defines the seam between a node, which decides, and what keeps the counts of keys: the memory of the
// process, a store, assignments, a share.
package counts

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Counts keep what keys have used. A node asks them about each request that brings a quota or whose key has a rule, and makes a
// verdict of what they answer. They are safe for concurrent use.
//
// They have states of their own for the rules of the Set of an Ask, by rules.Rule.Index. If they do not know a Set any
// more, the error is waiting.ErrMoved, and nothing has been done: the node asks again under the rules in force.
type Counts interface {
	// Take takes the tokens of a request from all its buckets, or none. It appends the answers of
	// the rules to the Verdict, up to the first that denies. It sets the Reason of a denial by
	// another than the rate, the Step, and of the Grant the Rules, and At if that is not the instant of the Verdict. If
	// whole, it has made the Verdict itself.
	Take(ctx context.Context, a Ask) (whole bool, err error)
	// TakeAll is Take for requests that are not settled, all under one Set: it sets Whole and Err of each. With all set,
	// either all are granted, and the settled ones are OK, or no tokens are taken.
	TakeAll(ctx context.Context, asks []Asked, all bool)
	// Await is Take for a request that is not settled and may wait: it has a cost, and no quota. After a change of the rules,
	// again finds the request under those in force; it returns false if the request is then decided.
	Await(ctx context.Context, a *Asked, again func(*Asked) bool)
	// Look sets the states of the rules of a match but for Rule, Denied and Lease, unless it has made the
	// whole explanation.
	Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (whole *decider.Explanation, err error)
	// AppendGrantID appends the id of a Grant: see decider.Decider.
	AppendGrantID(b []byte, g decider.Grant, key string) []byte
	// Redeem ends a grant of a key with the rules of a match, and charges n instead.
	Redeem(ctx context.Context, m *rules.Match, key, id string, n int) (decider.Settled, error)
	// Reset returns all tokens of a key with the rules of a match to its buckets: see node.Node.Reset.
	Reset(ctx context.Context, m *rules.Match, key string) ([]decider.Reset, error)
	// Waiting returns how many requests for a key wait at this node.
	Waiting(m *rules.Match, key string) int
	// Use takes rules that come into force soon, or returns an error for rules that cannot be counted. Requests find
	// them when it has returned; then the node calls done, after which the Set before is not asked for any more. Calls must
	// not be concurrent.
	Use(next *rules.Set) (done func(), err error)
}

// An Ask is a request for tokens, under the rules that were found for it.
type Ask struct {
	rules.Found
	Req *decider.Request
	V   *decider.Verdict // without answers
}

// Asked is an Ask with what has become of it.
type Asked struct {
	Ask
	Settled bool // the verdict is made, without Counts
	Whole   bool // Counts have made the verdict
	Untaken bool // all or nothing: nothing was taken, because some request is denied
	Err     error
}

// OwnRule is the rule in the answer to a request that brings a quota.
var OwnRule = &decider.RuleRef{Name: "own quota"}

// Answer appends an answer to the verdict.
func (a *Ask) Answer(d weir.Decision, r *decider.RuleRef) {
	a.V.Answers = append(a.V.Answers, decider.Answer{Decision: d, Rule: r, At: a.V.At})
}

// Denied reports whether the last answer is a denial.
func (a *Ask) Denied() bool {
	n := len(a.V.Answers)
	switch {
	case n == 0 || a.V.Answers[n-1].OK:
		return false
	case a.Req.Quota != nil:
		return !a.OnlyShadows()
	}
	return !a.V.Answers[n-1].Rule.Shadow()
}

// OnlyShadows reports whether the quota that the request brings denies nothing.
func (a *Ask) OnlyShadows() bool { return a.Req.Quota.Unit == 0 && a.ShadowsOwn() }

// Refused reports whether the request is not granted.
func (a *Asked) Refused() bool {
	if a.Settled || a.Whole {
		return !a.V.OK
	}
	return a.Err != nil || a.Untaken || a.Denied()
}

// Fail sets the error of all requests.
func Fail(asks []Asked, err error) {
	for i := range asks {
		asks[i].Err = err
	}
}

// RuleOf returns the place of the rule of an answer among rules with a rate, not before a place. Rules
// without an answer are passed over: the node decides without them while it is alone.
func RuleOf(answer *decider.Answer, rated []*rules.Rule, from int) int {
	for rated[from].Ref != answer.Rule {
		from++
	}
	return from
}

// ReasonOf returns the reason of a denial by a rate.
func ReasonOf(d weir.Decision) weir.Reason {
	if d.RetryAfter == weir.Never {
		return weir.OverBurst
	}
	return weir.OverRate
}

// StateOf returns the state of a rule with a rate.
func StateOf(d weir.Decision, used int) decider.RuleState {
	return decider.RuleState{Allowed: d.OK, Remaining: d.Remaining, ResetAfter: d.ResetAfter, RetryAfter: d.RetryAfter, Used: used}
}

// Bounds bound what a request may ask for. If they are zero, these fields are ignored.
type Bounds struct{ MaxLimit, MaxQueue int }

// Limit returns the limit that a request asks for; 0 if it asks for none.
func (b Bounds) Limit(req *decider.Request) int {
	if req.Limit <= 0 || b.MaxLimit == 0 {
		return 0
	}
	return min(req.Limit, b.MaxLimit)
}

// Queue returns how many requests may wait with a request under a rule.
func (b Bounds) Queue(req *decider.Request, r *rules.Rule) int {
	if req.OwnQueue && b.MaxQueue > 0 {
		return min(req.Queue, b.MaxQueue)
	}
	return config.QueueSize(r.Queue)
}

// Left returns what is left of a bound on waits; 0 if there is no bound.
func Left(maxWait, spent time.Duration) time.Duration {
	if maxWait == 0 {
		return 0
	}
	return max(maxWait-spent, 1)
}
