package rate

import (
	"time"

	"github.com/weir-go/weir/gcra"
)

// Per returns the quota of count events a period, and a burst: the same as [gcra.Per]. New
// makes a Limiter of it, and keyed.New one for every key.
//
//	lim := rate.New(rate.Per(100, time.Minute, 20), rate.Config{})
//
// If count is zero or less, the bucket is never refilled. If period is zero or less, there is no
// limit. If burst is zero or less, everything is denied.
func Per(count int, period time.Duration, burst int) gcra.Quota {
	return gcra.Per(count, period, burst)
}
