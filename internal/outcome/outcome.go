// Package outcome names the outcomes of work that callers do not choose
// themselves: variants of weir.Dropped and weir.Ignored that this module's
// limiters distinguish.
package outcome

import "github.com/weir-go/weir"

const (
	TimedOut = weir.Dropped + 1 + iota // Dropped: the caller's time ran out, and the work may be going on
	Left                               // Ignored: the caller left, and the work may be going on
	Late                               // Dropped: the work ended after the caller's time had run out
	Gone                               // Ignored: the work ended after the caller had left

	Count = iota + weir.Dropped + 1 // of all outcomes, those of weir too
)

// Abandoned reports whether the work may be going on although no caller waits
// for it. A concurrency limiter keeps its units in flight until it could have
// ended.
func Abandoned(o weir.Outcome) bool { return o == TimedOut || o == Left }

// Wasted reports whether no caller waited for the work when it ended, or was abandoned.
func Wasted(o weir.Outcome) bool { return o == Late || o == Gone || Abandoned(o) }

// Plain returns which of weir's three outcomes o is, or is a variant of; Ignored if o
// is unknown.
func Plain(o weir.Outcome) weir.Outcome {
	switch o {
	case weir.Success:
		return weir.Success
	case weir.Dropped, TimedOut, Late:
		return weir.Dropped
	default:
		return weir.Ignored
	}
}
