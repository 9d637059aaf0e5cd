package weir

import "time"

// A Decision is the answer of a rate limit to one request at one instant. The
// zero Decision denies the request.
type Decision struct {
	OK         bool          // the request may go on
	Remaining  int           // units that could be taken at this instant, after this decision
	RetryAfter time.Duration // if denied: how long until the same request would be allowed; 0 if allowed
	ResetAfter time.Duration // how long until the limit has recovered entirely, if nothing more is taken
}
