// Package window counts a rate limit in windows of time.
//
// A contract such as "5 per calendar day" needs a count that starts from zero at
// midnight; a token bucket cannot keep it. [Fixed] starts from zero in each window of a
// [Calendar]; under [Sliding], the units of the last window fade out over the next.
// Both are pure: a small state and the instant go in, the new state and a weir.Decision
// come out. The zero state is unused.
//
//	quota := window.Fixed{Limit: 5, Calendar: window.Day(epoch, time.UTC)}
//	var count window.Count // of one user
//	count, d := quota.Take(count, time.Since(epoch), 1)
//
// A window is a weaker bound than it seems to be. Unless the contract is about windows,
// prefer the token bucket of package gcra.
//
//   - Fixed admits Limit at the end of one window and Limit again at the beginning of
//     the next: twice the limit at once. A stretch of time that is no longer than any
//     window it meets sees at most 2·Limit, because it meets at most two. All clients
//     that were denied come back when the window ends. Use Fixed if the contract names
//     the window: a day from midnight, the month of an invoice.
//   - Sliding assumes that the units of the last window were spread evenly over it. If
//     they came late, a stretch d of at most a period sees up to Limit·(1 + d/period):
//     less than twice the limit in a period, and not at once. If they came early, it
//     denies although the last period saw fewer than Limit. On Cloudflare's traffic,
//     0.003 % of 400 million decisions were wrong ("How we built rate limiting capable
//     of scaling to millions of domains", 2017). Use Sliding to agree with other
//     limiters that count in this way.
//   - A token bucket with a burst of Limit keeps the bound of Sliding with one
//     word of state; with a smaller burst it keeps a better one.
//
// Instants are durations since an epoch that the user chose. Time that goes backwards
// frees nothing: an instant before the window of the state counts in that window, one
// before the epoch counts as the epoch. Waits begin at the instant that was passed. If
// a wait or its end does not fit into a Duration, it is weir.Never.
package window

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

func panicNegative() { panic("window: negative cost") }

// beyond returns limit + debt, of which what is below zero counts as zero.
func beyond(limit, debt int) int {
	limit = max(limit, 0)
	return limit + min(max(debt, 0), math.MaxInt-limit)
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
