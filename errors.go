package weir

import (
	"context"
	"errors"
	"math"
	"time"
)

// ErrRejected matches every *Rejection by errors.Is.
var ErrRejected = errors.New("rejected")

// A Reason is why work was rejected. The zero Reason means that it was not.
type Reason uint8

const (
	OverRate  Reason = iota + 1 // above the rate limit
	OverLimit                   // above the concurrency limit, without a queue to wait in; or more units than the whole limit
	QueueFull                   // the queue is full
	Overdue                     // waited too long in the queue
	TooLate                     // could not be done before the caller's deadline
	Closed                      // the limiter takes no more work
	OverBurst                   // costs more than the burst of the rate limit: no wait helps
	Throttled                   // the client itself holds it back, because the backend has rejected too much recently
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

// load reports whether the reason is a lack of capacity, and not a quota, a
// closed limiter or a client's own restraint.
func (r Reason) load() bool {
	switch r {
	case OverLimit, QueueFull, Overdue, TooLate:
		return true
	}
	return false
}

// Never is the RetryAfter of a request that will be rejected however long the caller
// waits.
const Never time.Duration = math.MaxInt64

// A Rejection is the error of work that was not admitted. Rejections are
// shared: do not change one.
type Rejection struct {
	Reason     Reason
	RetryAfter time.Duration // how long to wait before asking again; 0 if unknown, Never if no wait helps
}

// Reject returns the Rejection for a reason and a wait. It does not allocate: it
// returns one of a table of shared Rejections. RetryAfter is therefore rounded up: a
// shorter wait to 1/4096 s, a longer one by less than a quarter. The waits of 1 to 8,
// 10 and 12 seconds are exact.
func Reject(why Reason, retryAfter time.Duration) *Rejection {
	if int(why) >= len(rejections) {
		return &Rejection{Reason: why, RetryAfter: retryAfter}
	}
	shared := &rejections[why]
	i := step(retryAfter)
	if shared[i].RetryAfter < retryAfter { // the float was rounded down
		i++
	}
	return &shared[i]
}

// A step of RetryAfter is a float64 number of seconds with a mantissa of two
// bits: the upper 14 bits of the number determine it.
const (
	lowBits   = 50
	firstStep = (1023 - 12) << 2 // 1/4096 s
	steps     = 42*4 + 3         // up to 2^30 s; the first is 0, the last is Never
)

// rejections holds every Rejection that Reject returns.
var rejections = func() (all [len(reasons)][steps]Rejection) {
	for why := range all {
		for i := range all[why] {
			all[why][i].Reason = Reason(why)
			switch i {
			case 0:
			case steps - 1:
				all[why][i].RetryAfter = Never
			default:
				all[why][i].RetryAfter = time.Duration(1e9 * math.Float64frombits(uint64(firstStep+i-1)<<lowBits))
			}
		}
	}
	return all
}()

// step returns the index of the shortest wait that is not below d.
func step(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	up := math.Float64bits(float64(d)/1e9) + 1<<lowBits - 1
	return min(max(int(up>>lowBits)-firstStep+1, 1), steps-1)
}

func (r *Rejection) Error() string { return "rejected: " + r.Reason.String() }

// Is makes every Rejection ErrRejected, and a TooLate one also
// context.DeadlineExceeded.
func (r *Rejection) Is(target error) bool {
	return target == ErrRejected || r.Reason == TooLate && target == context.DeadlineExceeded
}
