package rate

import (
	"math"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/waitq"
)

// A Reservation is a permission to act after a delay, which may be zero. It is used by
// one goroutine at a time, and not copied: each copy could give back the same tokens.
type Reservation struct {
	lim   *Limiter
	state *state        // that it was made under; nil if it is not OK
	act   time.Duration // when the holder may, on its own clock
	n     int           // tokens held at its place
	extra int           // tokens that Settle has taken beside those
	place waitq.Promise
}

// refused is every Reservation that ReserveN refuses; nothing changes it.
var refused Reservation

// OK reports whether the Limiter can grant what was asked for within the
// longest wait. If not, Delay is InfDuration, and Cancel does nothing.
func (r *Reservation) OK() bool { return r.state != nil }

// Delay returns how long the holder must wait before it acts: 0 means now, and
// InfDuration never.
func (r *Reservation) Delay() time.Duration {
	return r.DelayFrom(time.Now())
}

// DelayFrom returns the Delay from the time t on.
func (r *Reservation) DelayFrom(t time.Time) time.Duration {
	if !r.OK() || r.act == InfDuration {
		return InfDuration
	}
	return max(r.act-t.Sub(r.state.epoch), 0)
}

// Cancel says that the holder will not act, and gives its tokens back. The calls
// that wait behind it move forward. Once the time to act has passed, or after a
// first Cancel, it does nothing.
//
// Later Reservations keep their times. So as many tokens as they reserved come back
// only when they are cancelled too.
func (r *Reservation) Cancel() { r.CancelAt(time.Now()) }

// CancelAt is Cancel at the time t.
func (r *Reservation) CancelAt(t time.Time) {
	if r.OK() && r.act >= t.Sub(r.state.epoch) {
		r.giveBack(r.lim.load().at(t), r.n+r.extra)
	}
}

// Settle changes the cost to n events, when the true cost is known. If n is less than
// was reserved, the difference is given back. If n is more, the difference is taken
// without a wait and may leave the bucket in debt, up to Config.MaxDebt; the rest is
// not charged. Settle may be called again. It panics if n < 0.
//
// Tokens that are given back are available from then on, up to the burst. So an
// estimate that is too high, and is settled late, delays other events.
func (r *Reservation) Settle(n int) {
	if n < 0 {
		panic("rate: Settle of a negative cost")
	}
	if !r.OK() {
		return
	}
	if held := r.n + r.extra; n < held {
		r.giveBack(r.lim.load().now(), held-n)
	} else {
		r.extra += r.lim.charge(n - held)
	}
}

// giveBack returns n of the tokens held: first those at its place.
func (r *Reservation) giveBack(now time.Duration, n int) {
	l := r.lim
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	now = max(now, s.since)
	first := min(n, r.n)
	l.giveBackLocked(s, now, r.place, first, n-first)
	r.n -= first
	r.extra -= n - first
}

// Settle changes the cost of work that was allowed as was events, without a
// Reservation or a Permit, to n. It is Settle of a Reservation otherwise, and
// returns what is charged: n, or less. It panics if either is negative.
func (l *Limiter) Settle(was, n int) int {
	if was < 0 || n < 0 {
		panic("rate: Settle of a negative cost")
	}
	if l.load().quota.Unlimited() {
		return n // nothing was taken
	}
	return l.settle(was, n)
}

// settle changes a cost from was to n, and returns what it is then.
func (l *Limiter) settle(was, n int) int {
	if n >= was {
		return was + l.charge(n-was)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	l.giveBackLocked(s, s.now(), 0, 0, was-n)
	return n
}

// giveBackLocked returns tokens: n taken at the place, and more that were there.
func (l *Limiter) giveBackLocked(s *state, now time.Duration, place waitq.Promise, n, more int) {
	l.queue.Serve(&s.quota, now)
	l.withdrawLocked(s, now, place, n)
	l.withdrawLocked(s, now, 0, more)
	l.queue.Serve(&s.quota, now)
}

func (l *Limiter) withdrawLocked(s *state, now time.Duration, place waitq.Promise, n int) {
	if n == 0 {
		return
	}
	down, align := l.queue.Withdraw(&s.quota, now, place, n, s.load())
	if b := s.lower(down); align {
		l.queue.Align(&s.quota, b)
	}
}

func (s *state) load() gcra.Bucket { return gcra.Bucket(s.bucket.Load()) }

// lower lowers the bucket, because tokens were given back.
func (s *state) lower(down gcra.Bucket) gcra.Bucket {
	for {
		b := s.load()
		next := b - min(down, b)
		if s.bucket.CompareAndSwap(uint64(b), uint64(next)) {
			return next
		}
	}
}

// charge takes n tokens, those to come included, into bounded debt, and
// returns how many it took.
func (l *Limiter) charge(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	now := s.now()
	l.queue.Serve(&s.quota, now)
	debt := l.cfg.MaxDebt
	if debt == 0 {
		debt = s.quota.Burst()
	}
	debt = max(debt, 0)
	debt += min(l.queue.Taken(&s.quota, now), math.MaxInt-debt) // those are no debt of this work
	for {
		b := gcra.Bucket(s.bucket.Load())
		next, took := s.quota.Charge(b, now, n, debt)
		if s.bucket.CompareAndSwap(uint64(b), uint64(next)) {
			s.lower(l.queue.Charged(&s.quota, now, took, next))
			l.queue.Serve(&s.quota, now)
			return took
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
	now := s.at(t)
	if !l.allow(s, now, n) {
		r := l.reserveLater(t.Sub(s.epoch), now, n, InfDuration)
		if !r.OK() {
			return &refused
		}
		kept := r
		return &kept
	}
	r := &Reservation{lim: l, state: s, act: t.Sub(s.epoch)}
	if !s.quota.Unlimited() {
		r.n = n
	}
	return r
}

// ReserveWithin is ReserveN at the present time, with a Delay of at most maxWait. It
// returns a value, so that it need not allocate.
func (l *Limiter) ReserveWithin(n int, maxWait time.Duration) (r Reservation) {
	s := l.load()
	now := s.now()
	if !l.allow(s, now, n) {
		return l.reserveLater(now, now, n, maxWait)
	}
	r.lim, r.state, r.act = l, s, now
	if !s.quota.Unlimited() {
		r.n = n
	}
	return r
}

// reserveLater reserves n events to come, at the instant now, which is t on the
// caller's clock.
func (l *Limiter) reserveLater(t, now time.Duration, n int, maxWait time.Duration) Reservation {
	if maxWait <= 0 {
		return Reservation{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	now = max(now, s.since)
	b, wait, ok := s.reserve(now, n, maxWait)
	if !ok {
		return Reservation{}
	}
	r := Reservation{lim: l, state: s, act: later(t, wait), n: n}
	if wait > 0 {
		r.place = l.queue.Promise(&s.quota, now, b, n, later(now, wait))
	}
	return r
}

// later is the instant after a wait; InfDuration if there is none.
func later(t, wait time.Duration) time.Duration {
	if wait > InfDuration-max(t, 0) {
		return InfDuration
	}
	return t + wait
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
