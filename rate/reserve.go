package rate

import (
	"math"
	"time"

	"github.com/weir-go/weir/gcra"
)

// A Reservation is leave to do something, perhaps only after a delay. It is
// used by one goroutine at a time.
type Reservation struct {
	ok        bool
	lim       *Limiter
	n         int
	timeToAct time.Time
	place     gcra.Promise
}

// OK reports whether the Limiter can grant what was asked for within the
// longest wait. If not, Delay is InfDuration, and Cancel does nothing.
func (r *Reservation) OK() bool { return r.ok }

// Delay returns how long the holder must wait before it acts: 0 means now, and
// InfDuration never.
func (r *Reservation) Delay() time.Duration {
	return r.DelayFrom(time.Now())
}

// DelayFrom returns the Delay from the time t on.
func (r *Reservation) DelayFrom(t time.Time) time.Duration {
	if !r.ok {
		return InfDuration
	}
	return max(r.timeToAct.Sub(t), 0)
}

// Cancel says that the holder will not act, and gives its tokens back. Those
// who wait behind it move forward. Once the time to act has passed, or after a
// first Cancel, it does nothing.
//
// Later Reservations keep the times they were given, so as much as was
// reserved later comes back only when all of them are cancelled too.
func (r *Reservation) Cancel() { r.CancelAt(time.Now()) }

// CancelAt is Cancel at the time t.
func (r *Reservation) CancelAt(t time.Time) {
	if !r.ok || r.n == 0 || r.timeToAct.Before(t) {
		return
	}
	r.lim.mu.Lock()
	defer r.lim.mu.Unlock()
	s := r.lim.load()
	r.lim.giveBackLocked(s, s.at(t), r.place, r.n)
	r.n = 0
}

// Settle tells the true cost, n events instead of those reserved. What was too
// much comes back, what was too little is taken without a wait: it may leave
// the bucket in debt, down to Config.MaxDebt. It may be called again. It
// panics if n < 0.
func (r *Reservation) Settle(n int) {
	if n < 0 {
		panic("rate: Settle of a negative cost")
	}
	if !r.ok || n == r.n {
		return
	}
	r.lim.settle(r.place, r.n, n)
	r.n = n
}

// settle changes a cost from was to n.
func (l *Limiter) settle(place gcra.Promise, was, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	if n < was {
		l.giveBackLocked(s, s.now(), place, was-n)
	} else {
		l.chargeLocked(s, s.now(), n-was)
	}
}

// giveBackLocked returns n tokens taken at the place.
func (l *Limiter) giveBackLocked(s *state, now time.Duration, place gcra.Promise, n int) {
	l.serveLocked(s, now)
	refund, align := l.line.Withdraw(&s.quota, now, place, n)
	b := s.refund(refund)
	if align {
		l.line.Align(&s.quota, b)
	}
	l.serveLocked(s, now)
}

// refund adds n tokens to the bucket.
func (s *state) refund(n int) gcra.Bucket {
	for {
		b := s.bucket.Load()
		next := s.quota.Refund(gcra.Bucket(b), n)
		if s.bucket.CompareAndSwap(b, uint64(next)) {
			return next
		}
	}
}

// chargeLocked takes n tokens, those to come included, into bounded debt.
func (l *Limiter) chargeLocked(s *state, now time.Duration, n int) {
	l.serveLocked(s, now)
	debt := l.cfg.MaxDebt
	if debt == 0 {
		debt = s.quota.Burst()
	}
	debt = max(debt, 0)
	debt += min(l.line.Tokens(), math.MaxInt-debt) // those are no debt of this work
	for {
		b := gcra.Bucket(s.bucket.Load())
		next := s.quota.Charge(b, now, n, debt)
		if s.bucket.CompareAndSwap(uint64(b), uint64(next)) {
			l.line.Delay(b, next)
			return
		}
	}
}

// Reserve reserves one event; see ReserveN.
func (l *Limiter) Reserve() *Reservation {
	r := l.ReserveWithin(1, InfDuration)
	return &r
}

// ReserveN returns a Reservation for n events at the time t: a promise that
// they may happen after its Delay, which the Limiter takes into account from
// then on. It is not OK if n exceeds the burst. It panics if n < 0.
//
//	r := lim.ReserveN(time.Now(), 1)
//	if !r.OK() {
//		return // n exceeds the burst
//	}
//	time.Sleep(r.Delay())
//	act()
//
// To heed a context or a deadline, use Wait. To drop what comes too often, use
// Allow.
func (l *Limiter) ReserveN(t time.Time, n int) *Reservation {
	s := l.load()
	r := l.reserve(s, t, s.at(t), n, InfDuration)
	return &r
}

// ReserveWithin is ReserveN now, for a Delay of at most maxWait, by value.
func (l *Limiter) ReserveWithin(n int, maxWait time.Duration) Reservation {
	s := l.load()
	now := s.now()
	return l.reserve(s, s.epoch.Add(now), now, n, maxWait)
}

// reserve reserves n events at the instant now, which is the caller's time t.
func (l *Limiter) reserve(s *state, t time.Time, now time.Duration, n int, maxWait time.Duration) Reservation {
	if s.quota.Unlimited() {
		return Reservation{ok: true, lim: l, timeToAct: t}
	}
	if l.allow(s, now, n) {
		return Reservation{ok: true, lim: l, n: n, timeToAct: t}
	}
	if n > s.burst || maxWait <= 0 {
		return Reservation{lim: l}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.load()
	now = max(now, s.since)
	_, wait, ok := s.reserve(now, n, maxWait)
	r := Reservation{ok: ok, lim: l}
	if ok {
		r.n, r.timeToAct = n, t.Add(wait)
		if wait > 0 {
			r.place = l.line.Promise(now, n, now+min(wait, InfDuration-now))
		}
	}
	return r
}

// reserve takes n tokens, those to come included. The state must be the
// current one: the caller holds the mutex.
func (s *state) reserve(now time.Duration, n int, maxWait time.Duration) (gcra.Bucket, time.Duration, bool) {
	for {
		b := s.bucket.Load()
		next, wait, ok := s.quota.Reserve(gcra.Bucket(b), now, n, maxWait)
		if !ok || s.bucket.CompareAndSwap(b, uint64(next)) {
			return next, wait, ok
		}
	}
}
