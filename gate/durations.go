package gate

import (
	"math/bits"
	"time"
)

// durations is a histogram of how long successful work took, in which recent
// work counts more. A bucket is half an octave wide and keeps a sum beside its
// count: the durations of work that always takes the same time are exact.
type durations struct {
	n       float32 // the sum of the buckets' counts
	buckets [durationBuckets]struct{ n, sum float32 }
}

const (
	// durationMemory is the count at which all counts are halved.
	durationMemory = 256

	firstOctave     = 14       // the first bucket ends at 1 << firstOctave ns, that is 16 µs
	durationBuckets = 2*28 + 1 // the last has no end; it begins above an hour

	traces = 1.0 / 32 // what is less than that is forgotten
)

func bucketOf(d time.Duration) int {
	octave := bits.Len64(uint64(max(d, 0)))
	if octave <= firstOctave {
		return 0
	}
	upper := int(uint64(d) >> (octave - 2) & 1)
	return min(2*(octave-firstOctave)-1+upper, durationBuckets-1)
}

func (h *durations) add(d time.Duration) {
	if h.n >= durationMemory {
		h.halve()
	}
	b := &h.buckets[bucketOf(d)]
	b.n++
	b.sum += float32(d)
	h.n++
}

func (h *durations) halve() {
	h.n = 0
	for i := range h.buckets {
		b := &h.buckets[i]
		b.n /= 2
		b.sum /= 2
		if b.n < traces {
			b.n, b.sum = 0, 0
		}
		h.n += b.n
	}
}

// p99 returns the mean of the bucket that holds the 99th percentile; 0 if
// nothing is known.
func (h *durations) p99() time.Duration {
	above := h.n / 100
	for i := durationBuckets - 1; i >= 0; i-- {
		b := h.buckets[i]
		if b.n > above {
			return time.Duration(b.sum / b.n)
		}
		above -= b.n
	}
	return 0
}

// beyond returns the mean duration of the work that took longer than d; 0 if
// there was none.
func (h *durations) beyond(d time.Duration) time.Duration {
	var n, sum float32
	for i := durationBuckets - 1; i >= bucketOf(d); i-- {
		if b := h.buckets[i]; b.n > 0 && b.sum > b.n*float32(d) {
			n += b.n
			sum += b.sum
		}
	}
	if n == 0 {
		return 0
	}
	return time.Duration(sum / n)
}
