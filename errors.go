package weir

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/weir-go/weir/internal/retrystep"
)

// ErrRejected matches every *Rejection by errors.Is.
var ErrRejected = errors.New("rejected")

// A Reason is why work was rejected. The zero Reason means that it was not.
type Reason uint8

const (
	OverRate   Reason = iota + 1 // above the rate limit
	OverLimit                    // above the concurrency limit, without a queue to wait in; or more units than the whole limit
	QueueFull                    // the queue is full
	Overdue                      // waited too long in the queue
	TooLate                      // could not be done before the caller's deadline
	Closed                       // the limiter takes no more work
	OverBurst                    // costs more than the burst of the rate limit: no wait helps
	Throttled                    // the client itself holds it back, because the backend has rejected too much recently
	Recovering                   // no lease is granted after a crash, until all earlier ones must have expired
)

var reasons = [...]string{"", "over_rate", "over_limit", "queue_full", "overdue", "too_late", "closed", "over_burst",
	"throttled", "recovering"}

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

// Reject returns the Rejection for a reason and a wait. Those for common waits are shared:
// 0, Never, and 1, 1.25, 1.5 and 1.75 times any power of two seconds, from 1/4096 s on. It
// allocates for another wait.
func Reject(why Reason, retryAfter time.Duration) *Rejection {
	retryAfter = max(retryAfter, 0)
	if int(why) < len(rejections) {
		if r := &rejections[why][retrystep.Index(retryAfter)]; r.RetryAfter == retryAfter {
			return r
		}
	}
	return &Rejection{Reason: why, RetryAfter: retryAfter}
}

// rejections holds every Rejection that is shared.
var rejections = func() (all [len(reasons)][retrystep.Count]Rejection) {
	for why := range all {
		for i := range all[why] {
			all[why][i] = Rejection{Reason(why), retrystep.At(i)}
		}
	}
	return all
}()

func (r *Rejection) Error() string { return "rejected: " + r.Reason.String() }

// Is makes every Rejection ErrRejected, and a TooLate one also
// context.DeadlineExceeded.
func (r *Rejection) Is(target error) bool {
	return target == ErrRejected || r.Reason == TooLate && target == context.DeadlineExceeded
}
