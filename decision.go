package weir

import "time"

// A Decision is what a rate limit says about one request at one instant. The
// zero Decision denies.
type Decision struct {
	OK         bool          // the request may go on
	Remaining  int           // units that could be taken at this instant, after this decision
	RetryAfter time.Duration // if denied: how long until the same request would be allowed; 0 if allowed
	ResetAfter time.Duration // how long until the limit is at rest again, if nothing more is taken
}
