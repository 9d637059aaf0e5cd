package redislimit

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/waitq"
)

// The mean pauses of a caller that waits for a lease: the first, also after its place has
// changed; the longest of the callers that are next; and the longest of any. For other callers,
// the first two are multiplied by how often the units have to come free before their turn.
const (
	minPoll  = 5 * time.Millisecond
	nextPoll = 25 * time.Millisecond
	maxPoll  = 250 * time.Millisecond
)

// A caller that waits loses its place if it does not ask for patience, and the Timeout of a
// call. At most maxWaiting callers wait for a key.
const (
	patience   = time.Second
	maxWaiting = 1000
)

// A lease is units of a key that are held. It owns their Permit.
type lease struct {
	redisscript.Lease
	owner   weir.Owner // itself
	l       *Leases
	key     string
	token   uint64
	renewal string                  // the operation of renewals
	cancel  context.CancelCauseFunc // ends the context of its holder

	// Guarded by heldMu of l.
	timer   *time.Timer // of the next renewal
	expires time.Time
}

// ask runs the script for the lease. Units that are granted too late go back.
func (h *lease) ask(ctx context.Context, op string) (redisscript.LeaseReply, error) {
	c := h.call(op)
	if op == redisscript.TakeLease {
		c.Undo = func([]int64) { h.l.link.Lane(h.key).Send(h.give()) }
	}
	numbers, err := h.l.link.Lane(h.key).Ask(ctx, c)
	if err != nil {
		return redisscript.LeaseReply{}, err
	}
	h.l.count.steps[Exact].Add(1)
	return redisscript.ReadLeaseReply(numbers, 1)
}

func (h *lease) call(op string) *redislink.Call {
	return &redislink.Call{
		Script: leases, Keys: []string{h.l.cfg.Prefix + h.key}, Args: h.Args(op),
		Look: func() []any { return (&redisscript.Lease{Limits: []int{0}}).Args(redisscript.LookLease) },
	}
}

// give returns the call that ends the lease, without a caller.
func (h *lease) give() *redislink.Call {
	c := h.call(redisscript.GiveLease)
	c.Then = func(a redislink.Answer) {
		if a.Err != nil {
			h.l.count.dropped.Add(1)
		}
	}
	return c
}

// renew lets the lease last longer. If that fails, it tries again soon, until the lease is lost.
func (h *lease) renew() {
	strict, asked, ctx := h.renewal == redisscript.KeepLease, time.Now(), h.l.link.Context()
	if strict { // an answer that takes longer finds the lease lost
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, h.expiry())
		defer stop()
	}
	reply, err := h.ask(ctx, h.renewal)
	now := time.Now()
	h.l.heldMu.Lock()
	_, held := h.l.held[h]
	lost := strict && (err == nil && !reply.Granted || err != nil && !now.Before(h.expires))
	next := h.TTL / 10
	if err == nil {
		h.expires, next = asked.Add(h.TTL), h.TTL/3
	} else if strict {
		next = min(next, h.expires.Sub(now))
	}
	if held && !lost {
		h.timer.Reset(next)
	}
	h.l.heldMu.Unlock()
	switch {
	case held && lost && h.l.drop(h):
		h.l.lost.Add(1)
		h.cancel(ErrLost)
	case !held && err == nil: // released meanwhile; the renewal may have come after that
		h.l.link.Lane(h.key).Send(h.give())
	}
}

func (h *lease) expiry() time.Time {
	h.l.heldMu.Lock()
	defer h.l.heldMu.Unlock()
	return h.expires
}

// Use does nothing: a unit in flight is a unit, whatever it costs.
func (h *lease) Use(g weir.Grant, _ int) int { return g.N }

// Release ends the context of the holder before another caller can get the units.
func (h *lease) Release(weir.Grant, weir.Outcome) {
	h.cancel(context.Canceled)
	if h.l.drop(h) {
		h.l.link.Lane(h.key).Send(h.give())
	}
}

// acquire asks for a lease until it is granted, for at most a time. The renewals use the
// operation renew, and call cancel when the lease is lost.
func (l *Leases) acquire(ctx context.Context, key string, n int, most time.Duration, renew string, cancel context.CancelCauseFunc) (*lease, error) {
	if n > min(l.limit, MaxUnits) {
		return nil, weir.Reject(weir.OverLimit, weir.Never)
	}
	until, why := time.Now().Add(most), weir.OverLimit
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until, why = at, weir.TooLate
	}
	h := &lease{l: l, key: key, renewal: renew, cancel: cancel, Lease: redisscript.Lease{Limits: []int{l.limit}, TTL: l.cfg.TTL, ID: rand.Text(), N: n, MaxWaiting: maxWaiting}}
	h.owner = h
	poll, place := minPoll, -1
	for {
		asked := time.Now()
		if h.Patience = 0; asked.Before(until) {
			h.Patience = patience + l.cfg.Timeout
		}
		reply, err := h.ask(ctx, redisscript.TakeLease)
		switch {
		case err != nil:
			return nil, err
		case reply.Granted:
			h.token, h.Patience, h.Arrived = reply.Token, 0, 0
			l.keep(h, asked)
			return h, nil
		case reply.QueueFull:
			return nil, weir.Reject(weir.QueueFull, reply.Wait)
		case h.Arrived == 0:
			h.Arrived = reply.Time
		}
		turns := time.Duration(1 + reply.Place*n/l.limit)
		if poll = min(2*poll, nextPoll*turns, maxPoll); reply.Place != place {
			place, poll = reply.Place, min(minPoll*turns, maxPoll)
		}
		pause := poll/2 + mathrand.N(poll)
		if time.Until(until) < pause {
			h.leave()
			return nil, weir.Reject(why, reply.Wait)
		}
		l.count.waiting.Add(1)
		ok := waitq.Sleep(ctx, pause)
		l.count.waiting.Add(-1)
		if !ok {
			h.leave()
			return nil, ctx.Err()
		}
	}
}

// leave ends the wait for the lease.
func (h *lease) leave() {
	if h.Patience > 0 {
		h.l.link.Lane(h.key).Send(h.give())
	}
}

// acquireLocally decides while the server is away. The next renewals tell the server of the
// lease.
func (l *Leases) acquireLocally(key string, n int) (*lease, error) {
	l.heldMu.Lock()
	fits := l.cfg.Away == Allow || l.cfg.Away == Share && l.units[key]+n <= l.limit/l.cfg.Instances
	l.heldMu.Unlock()
	step := Chosen
	if l.cfg.Away == Share {
		step = Shared
	}
	l.count.steps[step].Add(1)
	if !fits {
		return nil, weir.Reject(weir.Closed, l.link.Lane(key).RetryAfter())
	}
	h := &lease{
		l: l, key: key, renewal: redisscript.ForceLease, cancel: func(error) {},
		Lease: redisscript.Lease{Limits: []int{l.limit}, TTL: l.cfg.TTL, ID: rand.Text(), N: n},
	}
	h.owner = h
	l.keep(h, time.Now())
	return h, nil
}
