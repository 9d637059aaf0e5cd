// Package window counts a rate limit in windows of time.
//
// A contract such as "5 per calendar day" needs a count that starts from zero at
// midnight; a token bucket cannot keep it. A [Quota] starts from zero in each window of a
// [Calendar]; if it slides, the units of the last window fade out over the next. It is
// pure: a small state and the instant go in, the new state and a weir.Decision come out.
//
//	quota := window.Quota{Limit: 5, Calendar: window.Dates(window.Day, epoch, time.UTC)}
//	var count window.Count // of one user
//	count, d := quota.Take(count, time.Since(epoch), 1)
//
// A window is a weaker bound than it seems to be: package keyed says how, of Windows.
// Unless the contract is about windows, prefer the token bucket of package gcra.
//
// Instants are durations since an epoch that the user chose. Time that goes backwards
// frees nothing: an instant before the window of the state counts in that window, one
// before the epoch counts as the epoch. Waits begin at the instant that was passed. If
// a wait or its end does not fit into a Duration, it is weir.Never.
package window

import (
	"time"

	"github.com/weir-go/weir"
)

func check(n int) {
	if n < 0 {
		panic("window: negative cost")
	}
}

// after returns at + d, which are both >= 0.
func after(at, d time.Duration) time.Duration {
	if d > weir.Never-at {
		return weir.Never
	}
	return at + d
}

// until returns the wait from now to at, which is later.
func until(at, now time.Duration) time.Duration {
	if d := at - now; at < weir.Never && d > 0 {
		return d
	}
	return weir.Never
}
