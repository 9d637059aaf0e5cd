package inflight

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/servicetime"
	"github.com/weir-go/weir/limit"
)

// enter admits (an answer), refuses (an error) or queues (a waiter).
func (l *Limiter) enter(r gate.Request) (a answer, w waiter, err error) {
	l.lock()
	defer l.unlock()
	verdict, why := l.gate.Enter(r)
	switch verdict {
	case gate.Admit:
		a = answer{at: l.now(), inflight: l.gate.Inflight()}
	case gate.Refuse:
		err = rejections[why]
	case gate.Wait:
		w, err = l.joinLocked(r)
	}
	return a, w, err
}

func (l *Limiter) joinLocked(r gate.Request) (w waiter, err error) {
	now := l.now()
	if rules := l.gate.Config(); r.Tenant != 0 && rules.FairQueues == 0 { // the first tenant
		rules.FairQueues = DefaultFairQueues
		l.gate.Configure(rules)
	}
	if w.answer = l.spare; w.answer == nil {
		w.answer = make(chan answer, 1)
	}
	var why weir.Reason
	if w.ticket, why = l.gate.Join(now, r, w.answer); why != 0 {
		l.spare = w.answer // so that this refusal allocates nothing either
		return waiter{}, rejections[why]
	}
	l.spare = nil
	l.serveLocked(now) // the request may have evicted another, or fit beside a large one
	return w, nil
}

// A waiter is the place of a blocked Acquire in the queue.
type waiter struct {
	ticket gate.Ticket[chan answer]
	answer chan answer // of capacity one; only serveLocked sends, once
}

// An answer has no pointers, so that its channel is one allocation, the only one
// of a wait.
type answer struct {
	why      weir.Reason   // zero: admitted
	at       time.Duration // the instant
	waited   time.Duration // the time in the queue
	inflight int           // units in flight then
}

// wait blocks until w is answered or ctx ends.
//
// The answer cannot be lost, nor its units: serveLocked removes a waiter from the
// queue and sends its answer under the lock, into a channel that has room for
// it. So if Cancel, under the same lock, does not find w, the answer is in the
// channel, and a permit in it is released.
func (l *Limiter) wait(ctx context.Context, r gate.Request, w waiter) (answer, error) {
	done := ctx.Done()
	if done == nil { // a receive costs less than a select
		return (<-w.answer).result()
	}
	select {
	case a := <-w.answer:
		return a.result()
	case <-done:
	}
	if !l.cancel(w) {
		if a := <-w.answer; a.why == 0 {
			p := weir.OwnedPermit(&l.owners[r.Partition], l.grant(&r, a))
			p.Release(weir.Ignored)
		}
	}
	return answer{}, ctx.Err()
}

// result returns the rejection of an answer as an error.
func (a answer) result() (answer, error) {
	if a.why != 0 {
		return a, rejections[a.why]
	}
	return a, nil
}

func (l *Limiter) cancel(w waiter) bool {
	l.lock()
	defer l.unlock()
	now := l.now()
	if !l.gate.Cancel(now, w.ticket) {
		return false
	}
	l.serveLocked(now) // a smaller request may have waited behind w
	return true
}

// serveLocked answers all waiters that may start or have waited too long, and makes expire
// run at the gate's deadline. It must follow every event that can end a wait.
func (l *Limiter) serveLocked(now time.Duration) {
	if l.trace != nil { // Next does not tell why the limit changes
		was := l.gate.Limit()
		l.eventLocked(was, l.gate.Expire(now), limit.Sample{End: now})
	}
	for a, ok := l.gate.Next(now); ok; a, ok = l.gate.Next(now) {
		if i, _ := slices.BinarySearch(WaitBounds[:], a.Waited); i > 0 && a.Reason == 0 {
			l.waits[i]++
		}
		a.Waiter <- answer{a.Reason, now, a.Waited, l.gate.Inflight()}
	}
	if at, ok := l.gate.Deadline(); ok {
		l.timer.Arm(now, at)
	}
}

func (l *Limiter) expire() {
	l.lock()
	defer l.unlock()
	l.timer.Fired()
	l.serveLocked(l.now())
}

// note packs into the note of a permit: the units in flight, 19 bits; the route, 10 bits; whether
// the request had a deadline, and its priority, of which there are four; and the wait in
// microseconds, 32 bits.
func note(inflight int, waited time.Duration, r *gate.Request) uint64 {
	n := min(uint64(inflight), mostNoted)<<13 | uint64(r.Route)<<3 | uint64(min(max(r.Priority, weir.Sheddable), weir.CriticalPlus)-weir.Sheddable)
	if r.Deadline != 0 {
		n |= dated
	}
	return n<<32 | min(uint64(waited.Microseconds()), math.MaxUint32)
}

const (
	dated     = 1 << 2
	mostNoted = 1<<19 - 1 // units in flight
)

// plainNote is note for a request of which only the route is known: it was admitted at once.
func plainNote(inflight, route int) uint64 {
	return min(uint64(inflight), mostNoted)<<45 | uint64(route)<<35 | uint64(weir.Critical-weir.Sheddable)<<32
}

func noted(note uint64) (inflight int, waited time.Duration, r gate.Request) {
	n := note >> 32
	r.Priority = weir.Priority(n&(dated-1)) + weir.Sheddable
	if n&dated != 0 {
		r.Deadline = 1 // no matter when
	}
	r.Route = int(n >> 3 & servicetime.MaxRoutes)
	return int(n >> 13), time.Duration(note&math.MaxUint32) * time.Microsecond, r
}
