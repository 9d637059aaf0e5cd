package redislimit

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/waitq"
)

// For returns the rate limiter of a key. Its Acquire takes n tokens. If they are not
// available, it reserves the next ones in the server and waits for them, until
// Config.MaxWait or the deadline of its context. Turns are in the order of the calls'
// arrival at the server. If the context ends first, the tokens go back to the bucket; later
// callers do not move forward.
//
// Use of the Permit charges or gives back the difference in the background; Release does
// nothing. If the cost is less than n, the bucket is then as one from which only the cost was
// taken, at the same instant: it never has more tokens, and fewer by a 16th of the burst and the
// refill of a millisecond at most. More is charged when Use is called.
//
// Acquire returns the errors of a weir.Limiter. If the server does not decide in time, the
// Limiter does, also about a wait: by its share, or as Config.Away says; a denial is then
// weir.Closed with the time of the next probe. Acquire panics if n < 0; for n = 0 it does
// nothing.
func (l *Limiter) For(key string) weir.Limiter {
	k := &keyLimiter{l: l, key: key}
	k.owner = k
	return k
}

// A keyLimiter is the limiter of one key, and the owner of its permits.
type keyLimiter struct {
	l     *Limiter
	key   string
	owner weir.Owner // itself
}

func (k *keyLimiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	check(n)
	l := k.l
	switch {
	case n == 0:
		return weir.Permit{}, ctx.Err()
	case n > l.burst:
		return weir.Permit{}, weir.Reject(weir.OverBurst, weir.Never)
	}
	came := time.Now()
	patience, own := l.cfg.MaxWait, true
	if at, ok := ctx.Deadline(); ok && at.Sub(came) < patience {
		patience, own = max(at.Sub(came), 0), false
	}
	take := redisscript.Take{N: n, Least: n, Ahead: patience, Most: l.most, Settled: true}
	reply, err := l.ask(ctx, k.key, &take)
	switch {
	case err == redislink.ErrAway:
		return k.acquireLocally(ctx, n, came)
	case err != nil:
		return weir.Permit{}, err
	}
	d := reply.Decision(0, &l.quota, &take)
	l.learn(k.key, d.Remaining)
	if !d.OK {
		why := weir.TooLate
		if own {
			why = weir.OverRate
		}
		return weir.Permit{}, weir.Reject(why, d.RetryAfter+patience)
	}
	if wait := reply.Wait(0, &l.quota); wait > 0 {
		l.count.waiting.Add(1)
		ok := waitq.Sleep(ctx, wait)
		l.count.waiting.Add(-1)
		if !ok {
			l.giveBack(k.key, n, 0, reply.Time)
			return weir.Permit{}, ctx.Err()
		}
	}
	return k.permit(n, Exact, reply.Time), nil
}

// permit returns the Permit for n tokens of a decision at an instant of the server's clock.
func (k *keyLimiter) permit(n int, step Step, at time.Duration) weir.Permit {
	return weir.OwnedPermit(&k.owner, weir.Grant{N: n, At: at, Note: uint64(step)})
}

// acquireLocally decides while the server is away. A call that came earlier has waited for
// the server since.
func (k *keyLimiter) acquireLocally(ctx context.Context, n int, came time.Time) (weir.Permit, error) {
	l := k.l
	step := l.step(k.key)
	if step == Chosen {
		if d := l.decide(k.key, n); !d.OK {
			return weir.Permit{}, weir.Reject(weir.Closed, d.RetryAfter)
		}
		return k.permit(n, step, 0), nil
	}
	l.count.steps[step].Add(1)
	until, own := came.Add(l.cfg.MaxWait), true
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		own = false
	}
	within, stop := context.WithDeadline(ctx, until)
	defer stop()
	p, err := l.local.For(k.key).Acquire(within, n)
	switch r, _ := err.(*weir.Rejection); {
	case err == nil:
		p.Release(weir.Ignored)
		l.owe(k.key, n)
		return k.permit(n, step, 0), nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case r == nil: // the deadline is not the caller's
		err = weir.Reject(weir.OverRate, 0)
	case r.Reason == weir.TooLate && own:
		err = weir.Reject(weir.OverRate, r.RetryAfter)
	case r.Reason == weir.OverBurst: // here; the server may grant it
		err = weir.Reject(weir.Closed, l.retryAfter(k.key))
	}
	return weir.Permit{}, err
}

// Use settles the cost with the server, in the background, or here if the server has not decided.
func (k *keyLimiter) Use(g weir.Grant, n int) int {
	switch more := n - g.N; {
	case Step(g.Note) != Exact:
		k.l.local.Settle(k.key, g.N, n)
		k.l.owe(k.key, more)
	case more > 0:
		k.l.tell(k.key, &redisscript.Take{N: more, Debt: k.l.debt, Most: k.l.most})
	case more < 0:
		k.l.giveBack(k.key, g.N, n, g.At)
	}
	return n
}

func (k *keyLimiter) Release(weir.Grant, weir.Outcome) {}
