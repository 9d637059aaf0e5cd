package leaf

import (
	"slices"
	"time"

	"github.com/weir-go/weir"
)

// A Waiter is a caller that waits for tokens of a key: first come, first served.
type Waiter struct {
	// Wake, if not nil, is called when the tokens may come earlier than the last RetryAfter of
	// Wait or Ready. It must not block, and must not call the Keys.
	Wake func()

	key     string
	n       float64
	until   time.Duration
	place   float64 // entry.ahead, with this waiter
	granted bool
	at      time.Duration // when it was granted
	entry   *entry        // nil if the waiter is not in a queue
}

// Wait takes n tokens of a key, or queues for them if they may come until an instant. There
// are four results. If the Decision is OK, the tokens are taken. If the Reason is not zero,
// the request is rejected. If the step is Ask, nothing is decided. Otherwise the waiter is
// queued: the caller must call Ready after RetryAfter, and when it is woken, or Cancel.
func (k *Keys) Wait(now time.Duration, key string, n int, until time.Duration, p *Policy, w *Waiter) (weir.Decision, Step, weir.Reason) {
	d, step := k.Take(now, key, n, p)
	now = k.now
	*w = Waiter{Wake: w.Wake, key: key, n: float64(n), until: until}
	e := k.entries.find(key)
	switch {
	case d.OK || step == Ask:
		return d, step, 0
	case d.RetryAfter == weir.Never:
		return d, step, weir.OverBurst
	case e == nil || step == ByRule || now >= until || e.refill(now, k).Rate > 0 && d.RetryAfter > until-now:
		return d, step, weir.OverRate
	case k.waiting >= k.cfg.MaxWaiters:
		return d, step, weir.QueueFull
	}
	k.waiting++
	e.ahead += w.n
	w.place, w.entry = e.ahead, e
	e.queue, e.queued = append(e.queue, w), true
	d.RetryAfter = k.turn(now, w)
	return d, step, 0
}

// Ready tells how the wait of a queued waiter goes on: see Wait. If the step is Ask, the key
// has lost its assignment, and the waiter has left the queue.
func (k *Keys) Ready(now time.Duration, w *Waiter) (weir.Decision, Step, weir.Reason) {
	now = k.clock(now)
	e := w.entry
	if e == nil { // granted by the Ready of another waiter
		return weir.Decision{OK: true}, Assigned, 0
	}
	e.last = now
	step := k.step(now, e, k.away(now))
	k.serve(now, e, step)
	if w.granted {
		return weir.Decision{OK: true, Remaining: whole(e.tokens)}, step, 0
	}
	d := weir.Decision{RetryAfter: k.turn(now, w)}
	switch {
	case step == Ask:
		k.leave(e, w)
		return d, step, 0
	case step == ByRule, now >= w.until:
		k.leave(e, w)
		return d, step, weir.OverRate
	}
	return d, step, 0
}

// serve gives tokens to the waiters of an entry, in their order.
func (k *Keys) serve(now time.Duration, e *entry, step Step) {
	free := e.unlimited || step == ByRule && e.policy.Away.passes() && k.away(now)
	if step == Ask || step == ByRule && !free {
		return
	}
	l := e.refill(now, k)
	for len(e.queue) > 0 {
		w := e.queue[0]
		if !free && !e.take(now, w.n, l) {
			return
		}
		e.used += int(w.n)
		w.granted, w.at, w.entry = true, now, nil
		e.served += w.n
		e.queue[0] = nil
		e.queue = e.queue[1:]
		e.queued = len(e.queue) > 0
		k.waiting--
	}
}

// turn returns the time until a queued waiter has its tokens, at the current rate, or has
// waited too long.
func (k *Keys) turn(now time.Duration, w *Waiter) time.Duration {
	e := w.entry
	l := e.refill(now, k)
	return max(min(duration(w.place-e.served-e.tokens, l.Rate), w.until-now), 1)
}

// leave takes a waiter that gives up out of the queue.
func (k *Keys) leave(e *entry, w *Waiter) {
	i := slices.Index(e.queue, w)
	for _, later := range e.queue[i+1:] {
		later.place -= w.n
	}
	e.ahead -= w.n
	e.queue = slices.Delete(e.queue, i, i+1)
	e.queued = len(e.queue) > 0
	w.entry = nil
	k.waiting--
}

// Cancel ends a wait. Tokens that the waiter has got already go back.
func (k *Keys) Cancel(now time.Duration, w *Waiter) {
	switch e := w.entry; {
	case e != nil:
		k.leave(e, w)
		k.wake(e)
	case w.granted:
		w.granted = false
		k.Settle(now, w.key, w.at, int(w.n), 0)
	}
}

// wake tells waiters of an entry that they may get their tokens earlier.
func (k *Keys) wake(e *entry) {
	for _, w := range e.queue {
		if w.Wake != nil {
			w.Wake()
		}
	}
}

// Waiting returns the number of queued waiters.
func (k *Keys) Waiting() int { return k.waiting }
