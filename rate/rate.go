// Package rate limits how often something happens, with the API of
// golang.org/x/time/rate: change the import and go on.
//
// A service that is called more often than it can bear becomes slow for all of
// its callers. A Limiter is a token bucket that drops calls, delays them, or
// reserves a time for them:
//
//	lim := rate.NewLimiter(100, 20) // a hundred a second, twenty at once
//	if !lim.Allow() { ... }         // drop
//	err := lim.Wait(ctx)            // or wait
//
// The differences from golang.org/x/time/rate:
//
//   - Allow, Take, and a Reserve that need not wait, are lock-free, and a denial
//     writes no memory that others read.
//   - Take also returns the remaining tokens, and when to retry.
//   - Errors of Wait wrap a *weir.Rejection with a Reason and a RetryAfter, or are the
//     context's own error, bare. A refusal of Acquire allocates nothing.
//   - Calls that wait are served first come, first served. When one leaves, or a
//     Reservation is cancelled, or the limit changes, the calls behind it move.
//   - The number of waiting calls is bounded, and so is the debt that Settle can
//     make.
//   - A call with an older time never refills a span of time twice. So after a call with
//     a future time, calls at the present find fewer tokens until then. A Reservation
//     that is cancelled twice gives its tokens back once.
//   - A negative n panics: in golang.org/x/time/rate it fills the bucket.
//   - Times passed as arguments count from 1970 to 2116. An earlier time counts as the
//     first instant of 1970, so the bucket is not refilled before it.
//
// A Limiter is also a [weir.Limiter].
//
// # When not to use it
//
// A rate is the wrong limit for a service with a capacity that is not known or moves
// with its load: its capacity is a number of requests in flight, not a number a second.
// Use package inflight for it. For one limit for every user or address, use package
// keyed. For "5 per calendar day", use keyed.Windows.
package rate

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/waitq"
)

// A Limit is a rate: events a second. The zero Limit refills nothing.
type Limit float64

// Inf is the Limit that allows everything, whatever the burst.
const Inf = Limit(math.MaxFloat64)

// InfDuration is the Delay of a Reservation that is not OK, or never refilled.
const InfDuration = time.Duration(math.MaxInt64)

var _ [0]struct{} = [InfDuration - weir.Never]struct{}{} // they are equal

// Every returns the Limit of one event in each interval; Inf if the interval
// is zero or less.
func Every(interval time.Duration) Limit {
	if interval <= 0 {
		return Inf
	}
	return 1 / Limit(interval.Seconds())
}

// DefaultQueue is the largest number of waiting calls if Config.Queue is zero.
const DefaultQueue = 65536

var _ [0]struct{} = [DefaultQueue - waitq.DefaultQueue]struct{}{} // they are equal

// Config configures New. NewLimiter uses the zero value.
type Config struct {
	// Queue bounds the number of waiters. If zero, DefaultQueue; if negative, no
	// call waits.
	Queue int
	// MaxWait bounds the time that Wait and Acquire wait. If zero, only the
	// context bounds it; if negative, no call waits.
	MaxWait time.Duration
	// MaxDebt bounds the debt, in tokens, that work can make by costing more than was
	// reserved for it (Settle, and Use of a Permit). If zero, the burst; if negative,
	// there is no debt.
	MaxDebt int
}

// A Limiter allows events at a Limit, after a burst. It is safe for concurrent
// use, and starts no goroutine.
//
// The zero Limiter denies everything until its limit and burst are set. A
// Limiter must not be copied.
type Limiter struct {
	state atomic.Pointer[state] // nil until something is allowed

	cfg Config

	mu    sync.Mutex // guards what follows, and every change of state
	queue waitq.TokenQueue
}

// A state is the bucket under one quota. When the quota changes, the bucket is
// marked as moved, and a new state takes over.
type state struct {
	owner  weir.Owner // of the permits
	epoch  time.Time
	since  time.Duration // no instant before the change of the quota counts
	quota  gcra.Quota
	limit  Limit
	burst  int
	bucket atomic.Uint64
}

// moved is the bucket of a state that another one has replaced. It is in such
// debt that it denies every call that does not check for it.
const moved = math.MaxUint64

// owing returns a bucket as a state stores it: never moved, not even if its debt is more
// than can be counted.
func owing(b gcra.Bucket) gcra.Bucket { return min(b, moved-1) }

// nothing is the state of the zero Limiter. Its bucket never changes.
var nothing state

// NewLimiter returns a Limiter for events at the Limit r and a burst of b, at
// first full. It has the zero Config.
func NewLimiter(r Limit, b int) *Limiter {
	l := new(Limiter)
	l.start(gcra.PerSecond(float64(r), b), r, b)
	return l
}

// New returns a Limiter for the quota. Its bucket is full at first.
func New(q gcra.Quota, cfg Config) *Limiter {
	l := &Limiter{cfg: cfg}
	l.start(q, min(Limit(q.Rate()), Inf), q.Burst())
	return l
}

func (l *Limiter) start(q gcra.Quota, r Limit, b int) {
	l.state.Store(&state{owner: (*owner)(l), epoch: waitq.Epoch(), quota: q, limit: r, burst: b})
}

func (l *Limiter) load() *state {
	if s := l.state.Load(); s != nil {
		return s
	}
	return &nothing
}

// reload returns the state that replaced the present one, once change has stored
// it.
func (l *Limiter) reload() *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load()
}

// now is the instant of the call.
func (s *state) now() time.Duration { return max(time.Since(s.epoch), s.since) }

// at is the instant t.
func (s *state) at(t time.Time) time.Duration { return max(t.Sub(s.epoch), s.since) }

// Limit returns the rate.
func (l *Limiter) Limit() Limit { return l.load().limit }

// Quota returns the Limit and the burst as one value.
func (l *Limiter) Quota() gcra.Quota { return l.load().quota }

// Burst returns the largest number of events that can happen at once.
func (l *Limiter) Burst() int { return l.load().burst }

// Allow reports whether an event may happen now, and counts it if so.
func (l *Limiter) Allow() bool {
	s := l.load()
	return l.allow(s, s.now(), 1)
}

// AllowN reports whether n events may happen at the time t, and counts them if
// so. It panics if n < 0.
func (l *Limiter) AllowN(t time.Time, n int) bool {
	s := l.load()
	return l.allow(s, s.at(t), n)
}

func (l *Limiter) allow(s *state, now time.Duration, n int) bool {
	for {
		b := s.bucket.Load()
		next, ok := s.quota.Allow(gcra.Bucket(b), now, n)
		switch {
		case ok:
			if s.bucket.CompareAndSwap(b, uint64(next)) {
				return true
			}
		case b != moved:
			return false
		default:
			s = l.reload()
			now = max(now, s.since)
		}
	}
}

// Take is Allow for n events. Its Decision also tells how many more may happen now,
// and when to retry. RetryAfter is weir.Never if no wait will help. With
// n = 0 it takes nothing, and is denied only in debt. It panics if n < 0.
func (l *Limiter) Take(n int) weir.Decision {
	s := l.load()
	now := s.now()
	for {
		b := s.bucket.Load()
		next, d := s.quota.Take(gcra.Bucket(b), now, n)
		switch {
		case b == moved:
			s = l.reload()
			now = max(now, s.since)
		case !d.OK || n == 0 || s.bucket.CompareAndSwap(b, uint64(next)):
			return d
		}
	}
}

// AllowAtMost reports how many of n events may happen now, and counts these: a batch can be
// cut to what the rate allows. It panics if n < 0.
func (l *Limiter) AllowAtMost(n int) int {
	s := l.load()
	now := s.now()
	for {
		b := s.bucket.Load()
		next, part, _ := s.quota.TakeAtMost(gcra.Bucket(b), now, n)
		switch {
		case b == moved:
			s = l.reload()
			now = max(now, s.since)
		case part == 0 || s.bucket.CompareAndSwap(b, uint64(next)):
			return part
		}
	}
}

// Tokens returns how many events may happen now, fractions included. It is negative if
// future tokens are reserved.
func (l *Limiter) Tokens() float64 { return l.TokensAt(time.Now()) }

// TokensAt returns the Tokens at the time t.
func (l *Limiter) TokensAt(t time.Time) float64 {
	s := l.load()
	b := s.Load()
	for ; b == moved; b = s.Load() {
		s = l.reload()
	}
	if s.quota == gcra.Unlimited() {
		return float64(s.burst)
	}
	return s.quota.Tokens(b, s.at(t))
}
