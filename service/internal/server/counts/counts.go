// Package counts defines the seam between a node, which decides, and what keeps the counts of keys: the memory of the
// process, a store, assignments, a share.
package counts

import (
	"context"
	"math/bits"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Counts keep what keys have used. A node asks them about each request that brings a quota, or for a key that has a rule, and makes a
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
	// TakeAll is Take for requests that are not Decided, all under one Set: it sets Whole and Err of each. With all set,
	// either all are granted, and the Decided ones are OK, or no tokens are taken.
	TakeAll(ctx context.Context, asks []Asked, all bool)
	// Await is Take for a request that is not Decided and may wait: it has a cost, and no quota. After a change of the rules,
	// again finds the request under those in force; it returns false if the request is then decided.
	Await(ctx context.Context, a *Asked, again func(*Asked) bool)
	// Look sets the states of the rules of a match but for Rule, Denied and Lease, unless it has made the
	// whole explanation.
	Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (whole *decider.Explanation, err error)
	// AppendGrantID appends the id of a Grant: see decider.Decider.
	AppendGrantID(b []byte, g decider.Grant, key string) []byte
	// Redeem ends a grant of a key with the rules of a match, and charges n instead.
	Redeem(ctx context.Context, m *rules.Match, key, id string, n int) (decider.Settlement, error)
	// Reset returns all tokens of a key with the rules of a match to its buckets: see node.Node.Reset.
	Reset(ctx context.Context, m *rules.Match, key string) ([]decider.Reset, error)
	// Waiting returns how many requests wait at this node under a rule with a rate for the bucket of a key.
	Waiting(set *rules.Set, r *rules.Rule, key string) int
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
	Decided bool // the verdict is made, without Counts
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
	if a.Decided || a.Whole {
		return !a.V.OK
	}
	return a.Err != nil || a.Untaken || a.Denied()
}

// Each does TakeAll by a function that takes for one request, and one that gives back what was taken.
func Each(asks []Asked, all bool, take func(*Asked), undo func(*Ask)) {
	refused := false
	for i := range asks {
		if !asks[i].Decided {
			take(&asks[i])
		}
		refused = refused || asks[i].Refused()
	}
	for i := 0; all && refused && i < len(asks); i++ {
		if a := &asks[i]; !a.Decided && !a.Refused() {
			undo(&a.Ask)
		}
	}
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
func StateOf(d weir.Decision, used, waiting int) decider.RuleState {
	return decider.RuleState{Allowed: d.OK, Remaining: d.Remaining, ResetAfter: d.ResetAfter, RetryAfter: d.RetryAfter, Used: used, Waiting: waiting}
}

// Bounds bound what a request may ask for. If they are zero, these fields are ignored.
type Bounds struct{ MaxLimit, MaxQueue int }

// A Node is the part of a node that its Counts use.
type Node struct {
	Bounds
	Clock *clock.Clock
	Room  *waiting.Room // of the requests that wait
}

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

// Mark identifies a rule and its state, which began to count at an instant. A grant has the sum of the marks of the rules
// that gave, which does not depend on their order.
func Mark(r *rules.Rule, since time.Duration) uint64 {
	return bits.RotateLeft64((r.NameHash^uint64(since))*0x9e37_79b9_7f4a_7c15, 32) * 0x9e37_79b9_7f4a_7c15
}

// MaxShadows bounds the shadow rules of a key that hear of settlements. Each may have
// given or not, which doubles the sums that are compared with that of the grant.
const MaxShadows = 4

// MaxSums bounds the Sums of a match.
const MaxSums = 1 << MaxShadows

// Give adds a rule to the grant if its answer, the last one, allows; shadows counts the shadow rules of the request.
func (a *Ask) Give(r *rules.Rule, since time.Duration, shadows *int) {
	if r.Mode == config.Shadow {
		*shadows++
	}
	if a.V.Answers[len(a.V.Answers)-1].OK && *shadows <= MaxShadows {
		a.V.Grant.Rules += Mark(r, since)
	}
}

// Sums appends what Grant.Rules can be for a grant of these rules. Bit i of a sum's index
// is set if the shadow rule i gave.
func Sums(m *rules.Match, mark func(*rules.Rule) uint64, all []uint64) []uint64 {
	all = append(all, 0)
	for _, r := range m.Rated {
		if r.Mode != config.Shadow {
			all[0] += mark(r)
		}
	}
	for _, r := range m.Rated {
		if r.Mode == config.Shadow && len(all) < MaxSums {
			for _, sum := range all {
				all = append(all, sum+mark(r))
			}
		}
	}
	return all
}

// Settle charges under each rule that gave; charge returns what the grant has cost there. Bit i of
// gave is set if the shadow rule i gave.
func Settle(m *rules.Match, g decider.Grant, gave, n int, charge func(*rules.Rule) (int, error)) (decider.Settlement, error) {
	done, charged := decider.Settlement{Was: g.N, Charged: n}, false
	for _, r := range m.Rated {
		shadow := r.Mode == config.Shadow
		took := !shadow || gave&1 != 0
		if shadow {
			gave >>= 1
		}
		if !took {
			continue
		}
		c, err := charge(r)
		if err != nil {
			return done, err
		}
		if !shadow && (!charged || c > done.Charged) {
			done.Charged, charged = c, true
		}
	}
	return done, nil
}

// A Ledger knows the grants that were not redeemed: see package grant.
type Ledger interface {
	// Redeem ends a grant. which is the index of its Rules among some.
	Redeem(id, key string, rules []uint64, now time.Duration) (g decider.Grant, which int, err error)
}

// Redeem does Counts.Redeem by a Ledger. since returns when the state of a rule began to count; charge charges n instead of
// a grant under one rule, and returns what the grant has cost there.
func Redeem(l Ledger, m *rules.Match, key, id string, n int, now time.Duration, since func(*rules.Rule) time.Duration, charge func(*rules.Rule, decider.Grant) int) (decider.Settlement, error) {
	var sums [MaxSums]uint64
	g, gave, err := l.Redeem(id, key, Sums(m, func(r *rules.Rule) uint64 { return Mark(r, since(r)) }, sums[:0]), now)
	if err != nil {
		return decider.Settlement{}, err
	}
	return Settle(m, g, gave, n, func(r *rules.Rule) (int, error) { return charge(r, g), nil })
}

// Given yields the rules that have given tokens, each with its answer; nil for the quota that the request brings.
func (a *Ask) Given(yield func(*rules.Rule, *decider.Answer) bool) {
	for i, j := 0, 0; i < len(a.V.Answers) && a.Req.N > 0; i, j = i+1, j+1 {
		answer, rule := &a.V.Answers[i], (*rules.Rule)(nil)
		if a.Req.Quota == nil {
			j = RuleOf(answer, a.Rated, j)
			rule = a.Rated[j]
		}
		if answer.OK && !yield(rule, answer) {
			return
		}
	}
}

// Reset does Counts.Reset by a function that makes the bucket of a rule full, and returns how many tokens were missing.
func Reset(m *rules.Match, fill func(*rules.Rule) int) []decider.Reset {
	done := []decider.Reset{}
	for _, r := range m.Rated {
		done = append(done, decider.Reset{Rule: r.Name, Returned: fill(r)})
	}
	return done
}

// Look does Counts.Look by a function for a rule with a rate.
func Look(m *rules.Match, states []decider.RuleState, look func(*rules.Rule) decider.RuleState) {
	for i, r := range m.List {
		if states[i].Allowed = true; r.Rated() {
			states[i] = look(r)
		}
	}
}

// CompileOwn returns a quota as its buckets need it, or decider.ErrQuota.
func CompileOwn(q *decider.Quota) (quota.Own, error) {
	interval, err := q.Interval()
	return quota.Own{Interval: interval, Limit: q.Limit()}, err
}

// OverrideRule returns the rule with the windows in which the limit of a request counts; nil if it has its own windows. A descriptor
// has one counter for each unit, as in envoyproxy/ratelimit: its rule and the limits that come with it share it.
func OverrideRule(m *rules.Match, req *decider.Request) *rules.Rule {
	if len(m.Rated) > 0 && m.Rated[0].Rate.Period == req.Quota.Unit && m.Rated[0].Alone(req.Key) {
		return m.Rated[0]
	}
	return nil
}

// Chargeable returns how many tokens a bucket of a rule can still be charged, of which some are used.
func Chargeable(r *rules.Rule, used int) int { return max(MaxDebt(r)+r.Limit()-used, 0) }

// OwnBucket returns by which quota the bucket counts that decides about a request with a quota, and the rule that has this bucket;
// nil if the key has one for such quotas.
func (a *Ask) OwnBucket() (shared *rules.Rule, q config.Quota, err error) {
	if own := a.Req.Quota; a.Set.InWindow(own) {
		return OverrideRule(a.Match, a.Req), config.Quota{Rate: config.Rate{Count: own.Count, Period: own.Unit}, Algorithm: config.FixedWindow}, nil
	}
	own, err := CompileOwn(a.Req.Quota)
	return nil, config.Quota{Rate: config.Rate{Count: 1, Period: own.Interval}, Burst: own.Limit}, err
}

// MaxDebt returns the tokens that a bucket of a rule may owe.
func MaxDebt(r *rules.Rule) int {
	if r.MaxDebt != nil {
		return *r.MaxDebt
	}
	return r.Limit()
}
