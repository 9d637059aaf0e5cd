package rate

import (
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
	n     int           // tokens held
	place waitq.Promise
}

// OK reports whether the events are reserved. It is false if they exceed the burst:
// then Delay is InfDuration, and Cancel does nothing.
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
// Later Reservations keep their times. Cancel therefore gives back only the tokens that
// exceed theirs; the rest is given back when they are cancelled too.
func (r *Reservation) Cancel() { r.CancelAt(time.Now()) }

// CancelAt is Cancel at the time t.
func (r *Reservation) CancelAt(t time.Time) {
	if r.n == 0 || r.act < t.Sub(r.state.epoch) {
		return
	}
	l := r.lim
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	l.queue.GiveBack(&s.quota, s.at(t), r.place, r.n, s)
	r.n = 0
}

// Settle changes the cost of work to n events when the true cost is known; was is the
// number of events that were allowed for it. If n is less, the difference is given back. If n is
// more, the difference is taken without a wait and may leave the bucket in debt, up to
// Config.MaxDebt; the rest is not charged. Settle returns the cost charged: n, or less.
// It panics if either is negative.
//
// Tokens that are given back are available from then on, up to the burst. So an
// estimate that is too high, and is settled late, delays other events.
func (l *Limiter) Settle(was, n int) int {
	if was < 0 || n < 0 {
		panic("rate: Settle of a negative cost")
	}
	if l.load().quota == gcra.Unlimited() {
		return n // nothing was taken
	}
	return l.settle(was, n)
}

// settle changes a cost from was to n, and returns what it is then.
func (l *Limiter) settle(was, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	if n > was {
		return was + l.queue.Charge(&s.quota, s.now(), n-was, waitq.Debt(l.cfg.MaxDebt, &s.quota), s)
	}
	l.queue.GiveBack(&s.quota, s.now(), 0, was-n, s)
	return n
}

// Load and CompareAndSwap make a state the Bucket of the queue.
func (s *state) Load() gcra.Bucket { return gcra.Bucket(s.bucket.Load()) }

func (s *state) CompareAndSwap(old, b gcra.Bucket) bool {
	return s.bucket.CompareAndSwap(uint64(old), uint64(owing(b)))
}

// Reserve reserves one event; see ReserveN.
func (l *Limiter) Reserve() *Reservation {
	r := l.reserveNow()
	return &r
}

func (l *Limiter) reserveNow() Reservation { return l.reserve(time.Now(), 1) }

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
	r := l.reserve(t, n)
	return &r
}

// reserve returns a value, so that its callers are inlined and a Reservation that
// does not escape allocates nothing.
func (l *Limiter) reserve(t time.Time, n int) Reservation {
	s := l.load()
	r := Reservation{lim: l, state: s, act: t.Sub(s.epoch), n: n}
	now := s.at(t)
	switch {
	case !l.allow(s, now, n):
		return l.reserveLater(r, now)
	case s.quota == gcra.Unlimited():
		r.n = 0 // nothing was taken
	}
	return r
}

// reserveLater reserves events to come, at the instant now.
func (l *Limiter) reserveLater(r Reservation, now time.Duration) Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.load()
	now = max(now, s.since)
	b, wait, ok := s.reserve(now, r.n, InfDuration)
	if !ok {
		return Reservation{}
	}
	r.state = s
	r.act = later(r.act, wait)
	if wait > 0 {
		r.place = l.queue.Promise(&s.quota, now, b, r.n, later(now, wait))
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
		next = owing(next)
		if !ok || s.bucket.CompareAndSwap(b, uint64(next)) {
			return next, wait, ok
		}
	}
}
