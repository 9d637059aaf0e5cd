package weir

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"time"
)

// ErrRejected is what every *Rejection is, in the sense of errors.Is.
var ErrRejected = errors.New("rejected")

// A Reason says why work was rejected. The zero Reason means that it was not.
type Reason uint8

const (
	OverRate  Reason = iota + 1 // more per second than allowed
	OverLimit                   // as much in flight as allowed, and no queue to wait in; or more units than the whole limit
	QueueFull                   // as many waiting as allowed
	Overdue                     // waited as long as allowed
	TooLate                     // could not have been admitted before the caller's deadline
	Closed                      // the limiter takes no more work
	OverBurst                   // costs more than the rate limit can ever hold: no wait helps
	Throttled                   // the client keeps it back: the backend has refused too much of late
)

var reasons = [...]string{"", "over_rate", "over_limit", "queue_full", "overdue", "too_late", "closed", "over_burst",
	"throttled"}

// String returns the reason as metrics, logs and wire formats spell it.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown"
}

// load reports whether the reason is a lack of room, rather than a quota, an end
// of service, or a client's own restraint.
func (r Reason) load() bool {
	switch r {
	case OverLimit, QueueFull, Overdue, TooLate:
		return true
	}
	return false
}

// Never is the RetryAfter of what no wait will make possible.
const Never time.Duration = math.MaxInt64

// A Rejection is the error of work that was not let in.
//
// Rejections are shared: do not change one.
type Rejection struct {
	Reason     Reason
	RetryAfter time.Duration // the soonest that asking again makes sense; 0 = not known, Never = it does not
}

// Reject returns the Rejection for a reason and a wait. It allocates nothing:
// there is one for every reason and length of wait, of which there are few,
// because RetryAfter is rounded up: to a multiple of a quarter of a
// millisecond, about, below four of them; above that, by less than a quarter
// of itself. Among what is not rounded are 1 to 8, 10 and 12 seconds.
func Reject(why Reason, retryAfter time.Duration) *Rejection {
	if int(why) >= len(rejections) {
		return &Rejection{Reason: why, RetryAfter: retryAfter}
	}
	return &rejections[why][step(retryAfter)]
}

// A shared RetryAfter is counted in units of a second / 4096: there are
// unitsOf of them in per nanoseconds.
const unitsOf, per = 8, 1_953_125

// steps is one more than the step of the longest wait, which is Never.
const steps = 166

// rejections holds every Rejection that Reject returns.
var rejections = func() (all [len(reasons)][steps]Rejection) {
	for why := range all {
		for i := range all[why] {
			all[why][i] = Rejection{Reason(why), wait(i)}
		}
	}
	return all
}()

// step is the number of the shortest wait that is not below d: a tiny floating
// point number, with two bits of mantissa.
func step(d time.Duration) int {
	switch {
	case d <= 0:
		return 0
	case d > 1<<30*time.Second: // 34 years
		return steps - 1
	}
	q := (uint64(d)*unitsOf + per - 1) / per
	e := max(bits.Len64(q)-3, 0)
	if rest := q & (1<<e - 1); rest != 0 {
		q += 1<<e - rest // may carry into the next power of two
		e = bits.Len64(q) - 3
	}
	return 4*e + int(q>>e)
}

// wait is the inverse of step. A whole number of nanoseconds that is no longer
// than so many units is no longer than their whole nanoseconds.
func wait(step int) time.Duration {
	if step == steps-1 {
		return Never
	}
	e := max(step/4-1, 0)
	q := uint64(step - 4*e)
	if hi, lo := bits.Mul64(q<<e, per); hi == 0 {
		return time.Duration(lo / unitsOf)
	}
	return Never
}

func (r *Rejection) Error() string { return "rejected: " + r.Reason.String() }

// Is makes every Rejection ErrRejected, and a TooLate one also
// context.DeadlineExceeded.
func (r *Rejection) Is(target error) bool {
	return target == ErrRejected || r.Reason == TooLate && target == context.DeadlineExceeded
}
