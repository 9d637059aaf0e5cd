package quota

import (
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/server/clock"
)

// Requested has token buckets for the quotas that requests bring: one for each key and
// quota. It is safe for concurrent use.
//
// All buckets are in one table and count nanoseconds: a token costs the interval of its
// quota, and a nanosecond comes in each nanosecond.
type Requested struct {
	clock   *clock.Clock
	buckets *keyedtable.Buckets[string]
	quotas  [64]atomic.Pointer[ownQuota] // that were used last, by their refill
}

// An ownQuota is fullAfter(refill). It is kept because to compute it takes as long as to find a
// bucket.
type ownQuota struct {
	refill time.Duration
	quota  gcra.Quota
}

// quota returns fullAfter(refill), which it keeps.
func (r *Requested) quota(refill time.Duration) *gcra.Quota {
	place := &r.quotas[uint64(refill)*0x9e37_79b9_7f4a_7c15>>58]
	known := place.Load()
	if known == nil || known.refill != refill {
		known = &ownQuota{refill, fullAfter(refill)}
		place.Store(known)
	}
	return &known.quota
}

// An Own is a quota that a request brings: an interval between tokens, >= 1 ns, and a
// capacity in tokens, > 0. Their product must not exceed maxRefill of NewRequested.
type Own struct {
	Interval time.Duration
	Limit    int
}

// NewRequested returns buckets that are full.
func NewRequested(c *clock.Clock, maxRefill time.Duration, memory int) (*Requested, error) {
	q := fullAfter(maxRefill)
	b, err := keyedtable.NewBuckets[string](q, keyedtable.Config{Memory: memory})
	return &Requested{clock: c, buckets: b}, err
}

// fullAfter returns the quota of a bucket that an empty one fills after refill. Its unit is a
// nanosecond of that time, so that one bucket serves any Own with this refill.
func fullAfter(refill time.Duration) gcra.Quota {
	return gcra.Per(1, time.Nanosecond, int(refill))
}

// Take takes n tokens of a Fingerprint's bucket, or reports why it cannot. With n = 0, it
// reports whether a token is available. The instant must be recent.
func (r *Requested) Take(print uint64, own Own, at time.Duration, n int) weir.Decision {
	q, cost := r.quota(own.Interval*time.Duration(own.Limit)), math.MaxInt
	if n <= own.Limit {
		cost = n * int(own.Interval)
	}
	d := r.buckets.TakeUnder(print, r.clock.Time(at), cost, q)
	left := time.Duration(d.Remaining)
	d.Remaining = int(left / own.Interval)
	if n == 0 && d.Remaining == 0 {
		d.OK, d.RetryAfter = false, own.Interval-left
	}
	return d
}

// Return returns n tokens that Take has given.
func (r *Requested) Return(print uint64, own Own, n int) {
	r.buckets.Settle(print, n*int(own.Interval), 0)
}

// Fingerprint identifies the bucket of a key and a quota.
func (r *Requested) Fingerprint(key string, own Own) uint64 {
	return r.buckets.FingerprintWith(key, uint64(own.Interval), uint64(own.Limit))
}

// Prefetch has the processor fetch a bucket that Take takes from soon.
func (r *Requested) Prefetch(print uint64) { r.buckets.Prefetch(print) }

// SetMemory changes the bound on the memory, in bytes.
func (r *Requested) SetMemory(most int) { r.buckets.SetMemory(most) }

// Memory is as in Buckets.
func (r *Requested) Memory() (bytes, most int, dropped uint64) {
	st := r.buckets.Stats()
	return st.Memory, r.buckets.MemoryMost(), st.Forgotten
}

// Snapshot is as in Buckets.
func (r *Requested) Snapshot(w io.Writer) error { return r.buckets.Snapshot(w) }

// Share, Extract and Absorb are as in Buckets.
func (r *Requested) Share(seed siphash.Key) { r.buckets.Share(seed) }

func (r *Requested) Extract(slots *slot.Set, emit func(part []byte) error) error {
	return r.buckets.Extract(slots, emit)
}

// Absorb bounds no debt: what quotas allow is known to requests only.
func (r *Requested) Absorb(part []byte) error { return r.buckets.Absorb(part, math.MaxInt32) }

// Restore is as in Buckets.
func (r *Requested) Restore(from io.Reader) error { return r.buckets.Restore(from) }
