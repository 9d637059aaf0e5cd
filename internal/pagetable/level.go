package pagetable

import (
	"math"

	"github.com/weir-go/weir/gcra"
)

// Level is the Law of buckets: every bucket that is not above it is full. See
// gcra.Quota.Level.
type Level gcra.Bucket

// Weight is how far the bucket is above the Level.
func (l Level) Weight(v Value) uint64 { return v.A - min(v.A, uint64(l)) }

// Join returns the greater bucket.
func (l Level) Join(v, w Value) Value { return Value{A: max(v.A, w.A)} }

// Spare implements Law.
func (l Level) Spare(_ *Layout, p *Page, print uint64) (at int, live bool) {
	_, at, live = l.Find(p, print)
	return at, live
}

// Find returns the index of the value of a fingerprint or, if it has no slot, that
// of the spare one. It is Layout.Find and Spare in one loop without calls. With
// calls, a key that is new costs half as much again (BenchmarkFlood of package
// keyed).
func (l Level) Find(p *Page, print uint64) (at, spare int, live bool) {
	least := uint64(math.MaxUint64)
	i := bucketHome(print)
	for range reach {
		if p[i] == print {
			return i + 1, 0, false
		}
		if b := p[i+1]; b < least && least > uint64(l) {
			least, spare = b, i+1 // an empty slot has a full bucket
		}
		if p[i] == 0 {
			break
		}
		if i += 2; i == Words {
			i = bucketFirst
		}
	}
	return 0, spare, least > uint64(l)
}
