package inflight

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gate"
)

// enter admits (a permit), refuses (an error) or queues (a waiter).
func (l *Limiter) enter(n int) (p weir.Permit, w *waiter, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	verdict, why := l.gate.Enter(gate.Request{N: n})
	switch verdict {
	case gate.Admit:
		p = l.permitLocked(l.now(), n)
	case gate.Refuse:
		err = rejection(why)
	case gate.Wait:
		now := l.now()
		w = &waiter{n: n, answer: make(chan answer, 1)}
		w.ticket, _ = l.gate.Join(now, gate.Request{N: n}, w)
		l.armLocked(now)
	}
	return p, w, err
}

// A waiter stands in the queue for a blocked Acquire.
type waiter struct {
	n      int
	ticket gate.Ticket
	answer chan answer // of capacity one; only serveLocked sends, once
}

type answer struct {
	permit weir.Permit
	err    error
}

// wait blocks until w is answered or ctx ends.
//
// The answer cannot be lost, nor a unit with it: serveLocked takes a waiter
// out of the queue and sends its answer under the lock. So if Cancel, under
// the same lock, finds w gone, the answer is already in the channel, and a
// permit in it is given back.
func (l *Limiter) wait(ctx context.Context, w *waiter) (weir.Permit, error) {
	select {
	case a := <-w.answer:
		return a.permit, a.err
	case <-ctx.Done():
	}
	if !l.cancel(w) {
		a := <-w.answer
		a.permit.Release(weir.Ignored)
	}
	return weir.Permit{}, ctx.Err()
}

func (l *Limiter) cancel(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gate.Cancel(w.ticket) {
		return false
	}
	l.serveLocked(l.now()) // w may have held back a smaller request
	return true
}

// serveLocked answers every waiter whose wait is over. It must follow every
// event that can end one.
func (l *Limiter) serveLocked(now time.Duration) {
	for {
		a, ok := l.gate.Next(now)
		if !ok {
			break
		}
		if a.Reason != 0 {
			a.Waiter.answer <- answer{err: rejection(a.Reason)}
		} else {
			a.Waiter.answer <- answer{permit: l.permitLocked(now, a.Waiter.n)}
		}
	}
	l.armLocked(now)
}

// armLocked sees to it that expire runs at the gate's deadline. A timer that
// fires too early is left alone: expire arms it again.
func (l *Limiter) armLocked(now time.Duration) {
	at, ok := l.gate.Deadline()
	if !ok || l.armed && l.alarm <= at {
		return
	}
	l.armed, l.alarm = true, at
	if l.timer == nil {
		l.timer = time.AfterFunc(at-now, l.expire)
	} else {
		l.timer.Reset(at - now)
	}
}

func (l *Limiter) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	l.serveLocked(l.now())
}
