package redistest

import (
	"slices"
	"time"
)

// A Hold is a lease of the only unit of a key, as its holder sees it: from the answer until it
// begins to give the lease back or knows that the lease is lost.
type Hold struct {
	Token       uint64 // for fencing
	From, Until time.Duration
}

// Overlap returns the longest time in which two holders have believed to hold the lease, and
// the number of tokens that are not higher than the token before.
func Overlap(holds []Hold) (longest time.Duration, backward int) {
	holds = slices.SortedFunc(slices.Values(holds), func(a, b Hold) int { return int(a.From - b.From) })
	for i := 1; i < len(holds); i++ {
		last, h := &holds[i-1], &holds[i]
		longest = max(longest, min(last.Until, h.Until)-h.From)
		if h.Token <= last.Token {
			backward++
		}
		if last.Until > h.Until { // the longer one counts on
			h.Until = last.Until
		}
	}
	return longest, backward
}
