// Package admission decides whether a handler may serve a request: it asks the
// rate limits (rules) first, and then the concurrency limit of the request's
// class. If one refuses, the others get their tokens back. The package knows no
// protocol: R is the request type of one.
package admission

import (
	"context"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/retrystep"
	"github.com/weir-go/weir/internal/wrapped"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/recording"
)

// A Door admits requests. It is safe for concurrent use.
type Door[R any] struct {
	cfg      Config[R]
	rules    []ruleCounts
	classes  classes
	exempt   paths
	exempted atomic.Uint64
	trusted  caller.Trusted
}

// New returns a Door. The Config must be valid.
func New[R any](cfg Config[R]) *Door[R] {
	d := &Door[R]{
		cfg:     cfg,
		rules:   make([]ruleCounts, len(cfg.Rules)),
		classes: classes{limiter: cfg.PerClass},
		exempt:  newPaths(cfg.Exempt),
		trusted: caller.Trust(cfg.Trusted, false),
	}
	if cfg.PerClass == nil {
		d.classes.limiter = func(string) weir.Limiter { return cfg.Limiter }
	}
	return d
}

// Exempt reports whether requests to a path are admitted without a decision, and
// counts them.
func (d *Door[R]) Exempt(path string) bool {
	if !d.exempt.has(path) {
		return false
	}
	d.exempted.Add(1)
	return true
}

// Trusts reports whether a peer is trusted.
func (d *Door[R]) Trusts(p caller.Peer) bool { return d.trusted.Contains(p) }

// A Visit holds the tokens and the permit of one request. The zero Visit holds
// nothing. It may be reused after Leave, and is not safe for concurrent use.
type Visit[R any] struct {
	door    *Door[R]
	req     R
	class   *class
	unsure  bool // of class
	permit  weir.Permit
	units   int // of the permit
	answers []Answer
	refuser int
	record  recording.Record // with Config.Recorder, until the admission
}

// An Answer is the decision of a rule.
type Answer struct {
	weir.Decision
	Policy keyed.Policy // of the request's key
	Cost   int

	permit weir.Permit // the units that the request holds
	back   int         // units given back by Refuse
}

// Left returns the units left to the key, including the ones given back.
func (a *Answer) Left() int {
	if !a.OK {
		return a.Remaining
	}
	return max(min(a.Remaining+a.back, a.Policy.Limit), 0)
}

// Answers returns the decisions of the rules that were asked, in order. A rule that does
// not apply to the request has no Policy.
func (v *Visit[R]) Answers() []Answer { return v.answers }

// Refuser returns the index of the rule that refused, or -1.
func (v *Visit[R]) Refuser() int { return v.refuser }

// Enter calls Ask, and then Admit. If it returns nil, Leave must follow. The error
// is a *weir.Rejection or that of the context. After an error, the request holds
// nothing, but v keeps the Answers.
func (d *Door[R]) Enter(ctx context.Context, req R, class string, v *Visit[R]) error {
	decided := false
	defer func() {
		if !decided { // a panic
			v.GiveBack()
		}
	}()
	err := d.Ask(ctx, req, class, v)
	if err == nil {
		err = v.Admit(ctx)
	}
	decided = true
	return err
}

// Ask asks the rules. If it returns nil, Admit, Refuse or GiveBack must follow; after a panic,
// GiveBack.
func (d *Door[R]) Ask(ctx context.Context, req R, class string, v *Visit[R]) error {
	v.door, v.req, v.refuser, v.unsure = d, req, -1, false
	v.answers = v.answers[:0]
	v.class = d.classes.get(class)
	if d.cfg.Recorder != nil {
		v.arrive(ctx)
	}
	for i := range d.cfg.Rules {
		if when := d.cfg.Rules[i].When; when != nil && !when(req) {
			v.answers = append(v.answers, Answer{}) // the place keeps the order
			continue
		}
		if err := d.ask(ctx, i, v); err != nil {
			v.refuser = i
			v.Refuse(err)
			return err
		}
	}
	return nil
}

// Request returns the request that Ask got.
func (v *Visit[R]) Request() R { return v.req }

// Class returns the class of the request.
func (v *Visit[R]) Class() string { return v.class.name }

// Unsure says, after Ask, that the class may turn out to be another one. The admission is
// counted by Leave then.
func (v *Visit[R]) Unsure() { v.unsure = true }

// Reclass counts the request, of which the class is Unsure, in another class. Its permit
// stays that of the first.
func (v *Visit[R]) Reclass(name string) { v.class = v.door.classes.get(name) }

// Limited reports whether the request's class has a limit.
func (v *Visit[R]) Limited() bool { return v.class.limiter() != nil }

// Admit asks the limit of the request's class.
func (v *Visit[R]) Admit(ctx context.Context) error {
	if err := v.admit(ctx); err != nil {
		v.Refuse(err)
		return err
	}
	if v.door.cfg.Recorder != nil {
		v.recordAdmission()
	}
	if !v.unsure {
		v.class.admitted.Add(1)
	}
	return nil
}

// Refuse gives the tokens of the rules back, and counts the refusal.
func (v *Visit[R]) Refuse(err error) {
	v.GiveBack()
	v.class.refused[reasonOf(err)].Add(1)
	if v.door.cfg.Recorder != nil {
		v.recordRefusal(err)
	}
}

func (v *Visit[R]) admit(ctx context.Context) error {
	d, limiter := v.door, v.class.limiter()
	v.units = 1
	if limiter == nil {
		return nil
	}
	if d.cfg.Units != nil {
		v.units = d.cfg.Units(v.req)
	}
	if d.cfg.Shadow {
		var err error
		if v.permit, err = wrapped.Try(ctx, limiter, v.units); err != nil {
			v.class.shadowed[reasonOf(err)].Add(1)
		}
		return nil
	}
	var err error
	v.permit, err = limiter.Acquire(ctx, v.units)
	return err
}

// ask asks a rule, and waits for units if the rule allows a wait.
func (d *Door[R]) ask(ctx context.Context, i int, v *Visit[R]) error {
	rule, counts := &d.cfg.Rules[i], &d.rules[i]
	cost := 1
	if rule.Cost != nil {
		cost = rule.Cost(v.req)
	}
	v.answers = append(v.answers, Answer{Cost: cost})
	a := &v.answers[i]
	verdict, err := rule.Limit.Decide(ctx, v.req, cost)
	if err == nil {
		a.Decision, a.Policy, a.permit = verdict.Decision, verdict.Policy, verdict.Permit.Move()
		if !a.OK {
			err = d.wait(ctx, rule, a, v.req)
		}
	}
	switch {
	case err == nil:
		counts.allowed.Add(1)
		return nil
	case !a.rejected(ctx, &err):
		a.Decision, a.Policy = weir.Decision{OK: true}, keyed.Policy{}
		counts.failed.Add(1)
		return nil
	case d.cfg.Shadow || rule.Shadow:
		counts.shadowed.Add(1)
		return nil
	}
	counts.denied.Add(1)
	return err
}

// rejected reports whether the error of a limiter rejects the request; it is a failure of the
// limiter otherwise. If the caller has left, the error becomes that of its context.
func (a *Answer) rejected(ctx context.Context, err *error) bool {
	if r := Rejection(*err); r != nil {
		if a.RetryAfter == 0 { // else that of the decision, which is not rounded
			a.RetryAfter = r.RetryAfter
		}
		return true
	}
	if gone := ctx.Err(); gone != nil {
		*err = gone
		return true
	}
	return false
}

// rejection returns the error of a rule that has denied.
func (a *Answer) rejection() error {
	switch {
	case a.Policy.Concurrent:
		return weir.Reject(weir.OverLimit, retrystep.Up(a.RetryAfter))
	case a.RetryAfter == weir.Never && a.Cost > a.Policy.Limit && a.Policy != keyed.Policy{}:
		return weir.Reject(weir.OverBurst, weir.Never)
	}
	return weir.Reject(weir.OverRate, retrystep.Up(a.RetryAfter))
}

// wait waits for the units of a rule that has denied, for at most MaxWait.
func (d *Door[R]) wait(ctx context.Context, rule *Rule[R], a *Answer, req R) error {
	if a.RetryAfter > rule.MaxWait || rule.MaxWait == 0 || d.cfg.Shadow || rule.Shadow {
		return a.rejection()
	}
	turn, cancel := context.WithTimeout(ctx, rule.MaxWait)
	defer cancel()
	p, err := rule.Limit.Acquire(turn, req, a.Cost)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case Rejection(err) == nil && turn.Err() == nil:
		return err
	default:
		return a.rejection()
	}
	a.permit = p.Move()
	if now, err := rule.Limit.Decide(ctx, req, 0); err == nil { // the units left now
		now.Permit.Release(weir.Ignored)
		a.Decision, a.Policy = now.Decision, now.Policy
	}
	a.OK = true
	return nil
}

// Settle changes the request's cost to n units for each rule that has allowed
// it. It gives back or charges the difference.
func (v *Visit[R]) Settle(n int) {
	for i := range v.answers {
		v.answers[i].permit.Use(n)
	}
}

// GiveBack gives back what the request holds of rules, if a later limit rejects it or a function
// of the Config panics.
func (v *Visit[R]) GiveBack() {
	for i := range v.answers {
		if a := &v.answers[i]; a.permit != (weir.Permit{}) {
			a.permit.Use(0)
			a.permit.Release(weir.Ignored)
			a.back = a.Cost
		}
	}
}

// Units returns how many units of the limit the request takes.
func (v *Visit[R]) Units() int { return v.units }

// Detach returns the limit's permit. The caller must release it.
func (v *Visit[R]) Detach() weir.Permit { return v.permit.Move() }

// Limiter returns the limit of the request's class, or nil.
func (v *Visit[R]) Limiter() weir.Limiter { return v.class.limiter() }

// Leave releases the permits, with the outcome of the work.
func (v *Visit[R]) Leave(o weir.Outcome) {
	v.permit.Release(o)
	for i := range v.answers {
		v.answers[i].permit.Release(o)
	}
	if v.unsure {
		v.class.admitted.Add(1)
	}
	v.class.outcomes[o].Add(1)
	var none R
	v.req = none
}
