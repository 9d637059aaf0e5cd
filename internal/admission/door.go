// Package admission asks the limits in front of a handler for one request:
// first the rules, which say how often each may ask, then the limit of the work
// that its class has. It is all or nothing: what refuses late gives back what
// was taken before. It knows no protocol: R is a request of one.
package admission

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// DefaultMaxClasses bounds the classes where Config leaves it open.
const DefaultMaxClasses = 100

// Config is what a Door is made of. Its functions are called by several
// goroutines at once.
type Config[R any] struct {
	// Rules are asked in order, before the limit of the class.
	Rules []Rule[R]
	// Limiter returns the limit of a class when its first request comes, or nil
	// for none. If nil, there is none.
	Limiter func(class string) weir.Limiter
	// MaxClasses bounds the classes. Those that come when there are as many
	// share one more, Others. If zero, DefaultMaxClasses.
	MaxClasses int
	// Units is how many units of its class's limit a request takes, >= 0. If
	// nil, one.
	Units func(R) int
	// Shadow refuses nobody: what would have been refused is counted.
	Shadow bool
}

// Validate returns an error that names the first field that makes no sense.
func (c Config[R]) Validate() error {
	names := map[string]bool{}
	for i := range c.Rules {
		if err := c.Rules[i].validate(names); err != nil {
			return fmt.Errorf("Rules[%d]%w", i, err)
		}
	}
	if c.MaxClasses < 0 {
		return fmt.Errorf("MaxClasses = %d: must be >= 0", c.MaxClasses)
	}
	return nil
}

// A Door lets requests in. It is safe for concurrent use.
type Door[R any] struct {
	cfg     Config[R]
	rules   []ruleCounts
	classes classes
	exempt  atomic.Uint64
}

// Exempt counts a request that is let in unasked.
func (d *Door[R]) Exempt() { d.exempt.Add(1) }

// New returns a Door. The Config must be valid.
func New[R any](cfg Config[R]) *Door[R] {
	if cfg.MaxClasses == 0 {
		cfg.MaxClasses = DefaultMaxClasses
	}
	if cfg.Limiter == nil {
		cfg.Limiter = func(string) weir.Limiter { return nil }
	}
	return &Door[R]{
		cfg:     cfg,
		rules:   make([]ruleCounts, len(cfg.Rules)),
		classes: classes{most: cfg.MaxClasses, limiter: cfg.Limiter},
	}
}

// A Visit is what one request has been given. The zero Visit has nothing; it
// may be used again after Leave. It belongs to one goroutine.
type Visit[R any] struct {
	door    *Door[R]
	req     R
	class   *class
	permit  weir.Permit
	answers []Answer
	refuser int
}

// An Answer is what a rule said.
type Answer struct {
	weir.Decision
	Quota gcra.Quota // that the request is under
	Cost  int
	held  int // tokens that the request has of it

	bucket uint64 // where they are from
}

// Left returns how many tokens the bucket holds, counting those that have come
// back.
func (a *Answer) Left() int {
	if !a.OK {
		return a.Remaining
	}
	return max(min(a.Remaining+a.Cost-a.held, a.Quota.Burst()), 0)
}

// Answers returns what the rules said, in order, as far as they were asked.
func (v *Visit[R]) Answers() []Answer { return v.answers }

// Refuser returns the number of the rule that refused, or -1.
func (v *Visit[R]) Refuser() int { return v.refuser }

// Enter asks for a request of a class, and notes in v what it is given: Leave
// must follow. The error is a *weir.Rejection or the context's own; then the
// request holds nothing, but v's Answers say why. Enter is Ask, and then Admit.
func (d *Door[R]) Enter(ctx context.Context, req R, class string, v *Visit[R]) error {
	if err := d.Ask(ctx, req, class, v); err != nil {
		return err
	}
	return v.Admit(ctx)
}

// Ask asks the rules. Admit or Refuse must follow, if there is no error.
func (d *Door[R]) Ask(ctx context.Context, req R, class string, v *Visit[R]) error {
	v.door, v.req, v.refuser = d, req, -1
	v.answers = v.answers[:0]
	v.class = d.classes.of(class)
	for i := range d.cfg.Rules {
		if err := d.ask(ctx, i, v); err != nil {
			v.refuser = i
			v.Refuse(err)
			return err
		}
	}
	return nil
}

// Limited reports whether Admit has a limit to ask.
func (v *Visit[R]) Limited() bool { return v.class.limiter() != nil }

// Admit asks the limit of the class.
func (v *Visit[R]) Admit(ctx context.Context) error {
	if err := v.admit(ctx); err != nil {
		v.Refuse(err)
		return err
	}
	v.class.admitted.Add(1)
	return nil
}

// Refuse gives back what the rules gave, and counts the refusal.
func (v *Visit[R]) Refuse(err error) {
	v.Settle(0)
	v.class.refused[reasonOf(err)].Add(1)
}

func (v *Visit[R]) admit(ctx context.Context) error {
	d, limiter := v.door, v.class.limiter()
	if limiter == nil {
		return nil
	}
	units := 1
	if d.cfg.Units != nil {
		units = d.cfg.Units(v.req)
	}
	if d.cfg.Shadow {
		if p, err := try(ctx, limiter, units); err == nil {
			v.permit = p
		} else {
			v.class.shadowed[reasonOf(err)].Add(1)
		}
		return nil
	}
	p, err := limiter.Acquire(ctx, units)
	if err != nil {
		return err
	}
	v.permit = p
	return nil
}

// ask asks a rule, and waits for its turn if it may.
func (d *Door[R]) ask(ctx context.Context, i int, v *Visit[R]) error {
	rule, counts := &d.cfg.Rules[i], &d.rules[i]
	a := Answer{Cost: 1}
	if rule.Cost != nil {
		a.Cost = rule.Cost(v.req)
	}
	a.Decision, a.Quota, a.bucket = rule.Buckets.Decide(v.req, a.Cost)
	var err error
	if !a.OK {
		err = d.wait(ctx, rule, &a, v.req)
	}
	if err == nil {
		a.held = a.Cost
		counts.allowed.Add(1)
		v.answers = append(v.answers, a)
		return nil
	}
	v.answers = append(v.answers, a)
	if d.cfg.Shadow || rule.Shadow {
		counts.shadowed.Add(1)
		return nil
	}
	counts.denied.Add(1)
	return err
}

// wait waits until a rule that has denied allows, if that is soon enough.
func (d *Door[R]) wait(ctx context.Context, rule *Rule[R], a *Answer, req R) error {
	if a.RetryAfter > rule.MaxWait || d.cfg.Shadow || rule.Shadow {
		return a.rejection()
	}
	turn, cancel := context.WithTimeout(ctx, rule.MaxWait)
	defer cancel()
	if rule.Buckets.Wait(turn, req, a.Cost) != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return a.rejection()
	}
	a.Decision, a.Quota, a.bucket = rule.Buckets.Decide(req, 0) // what is left now
	a.OK = true
	return nil
}

// Settle says that the request costs n tokens of each rule that has allowed it:
// what is too much comes back, what is too little is charged.
func (v *Visit[R]) Settle(n int) {
	for i := range v.answers {
		if a := &v.answers[i]; a.OK && a.held != n {
			a.held = v.door.cfg.Rules[i].Buckets.Settle(a.bucket, a.held, n)
		}
	}
}

// Detach takes the permit of the limit out of the visit: the caller releases it.
func (v *Visit[R]) Detach() weir.Permit {
	p := v.permit
	v.permit = weir.Permit{}
	return p
}

// Limiter returns the limit that Admit has asked, or nil.
func (v *Visit[R]) Limiter() weir.Limiter { return v.class.limiter() }

// Leave gives back what the request holds, and says how its work went.
func (v *Visit[R]) Leave(o weir.Outcome) {
	v.permit.Release(o)
	v.class.outcomes[o].Add(1)
	var none R
	v.req = none
}

// A tryer says at once whether there is room.
type tryer interface {
	TryAcquire(ctx context.Context, n int) (weir.Permit, bool)
}

// patience is how long a shadow lets a limiter think that cannot say at once.
const patience = time.Millisecond

// try asks a limiter without a wait.
func try(ctx context.Context, l weir.Limiter, n int) (weir.Permit, error) {
	if t, ok := l.(tryer); ok {
		if p, ok := t.TryAcquire(ctx, n); ok {
			return p, nil
		}
		return weir.Permit{}, weir.Reject(weir.OverLimit, 0)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.Acquire(ctx, n)
}
