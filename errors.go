package weir

import (
	"context"
	"errors"
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
)

var reasons = [...]string{"", "over_rate", "over_limit", "queue_full", "overdue", "too_late", "closed"}

// String returns the reason as metrics, logs and wire formats spell it.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown"
}

// A Rejection is the error of work that was not let in.
//
// Rejections are shared: do not change one.
type Rejection struct {
	Reason     Reason
	RetryAfter time.Duration // the soonest that asking again makes sense; 0 = not known
}

func (r *Rejection) Error() string { return "rejected: " + r.Reason.String() }

// Is makes every Rejection ErrRejected, and a TooLate one also
// context.DeadlineExceeded.
func (r *Rejection) Is(target error) bool {
	return target == ErrRejected || r.Reason == TooLate && target == context.DeadlineExceeded
}
