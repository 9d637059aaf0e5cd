package quota

import (
	"time"

	"github.com/weir-go/weir"
)

// TakeWithin takes n tokens of Buckets of config.FixedWindow under a limit >= 0, which counts
// instead of their own. With n = 0, it reports whether no more than the limit is counted.
func TakeWithin(b Buckets, bucket string, at time.Duration, n, limit int) weir.Decision {
	print := b.Fingerprint(bucket)
	switch {
	case limit > 0 && n > 0:
		return b.Take(bucket, print, at, n, limit, false)
	case limit > 0:
		return Look(b, bucket, print, at, limit)
	}
	// Buckets take a limit of 0 for none.
	d := Look(b, bucket, print, at, 1)
	unused := d.Remaining > 0
	d.OK, d.Remaining, d.RetryAfter = false, 0, weir.Never
	switch {
	case n > 0:
		b.Settle(bucket, at, 0, n)
	case unused:
		d.OK, d.RetryAfter = true, 0
	default:
		d.RetryAfter = d.ResetAfter
	}
	return d
}
