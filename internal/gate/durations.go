package gate

import (
	"math/bits"
	"time"
)

// durations is a histogram of how long successful work took, and of how long
// abandoned work had been going on, in which recent work counts more. A bucket is
// half an octave wide and keeps a sum beside its count: the durations of work that
// always takes the same time are exact.
type durations struct {
	all     float32 // successes and abandoned work, in all buckets
	inRow   int     // work abandoned since the last success
	buckets [durationBuckets]struct {
		n, sum    float32 // of successes
		abandoned float32
	}
}

const (
	// durationMemory is the count at which all counts are halved.
	durationMemory = 256

	firstOctave     = 14       // the first bucket ends at 1 << firstOctave ns, that is 16 µs
	durationBuckets = 2*28 + 1 // the last has no end; it begins above an hour

	traces    = 1.0 / 32 // what is less than that is forgotten
	lastKnown = 8        // successes that are remembered for as long as no others follow
)

func bucketOf(d time.Duration) int {
	octave := bits.Len64(uint64(max(d, 0)))
	if octave <= firstOctave {
		return 0
	}
	upper := int(uint64(d) >> (octave - 2) & 1)
	return min(2*(octave-firstOctave)-1+upper, durationBuckets-1)
}

// add learns that successful work took d.
func (h *durations) add(d time.Duration) {
	b := &h.buckets[bucketOf(d)]
	b.n++
	b.sum += float32(d)
	h.inRow = 0
	h.added()
}

// addAbandoned learns that work was abandoned at an age.
func (h *durations) addAbandoned(age time.Duration) {
	h.buckets[bucketOf(age)].abandoned++
	h.inRow++
	h.added()
}

func (h *durations) added() {
	if h.all++; h.all > durationMemory {
		h.halve()
	}
}

func (h *durations) halve() {
	fade := float32(0.5)
	if h.successes() < 2*lastKnown {
		fade = 1
	}
	h.all = 0
	for i := range h.buckets {
		b := &h.buckets[i]
		b.n *= fade
		b.sum *= fade
		b.abandoned /= 2
		if b.n < traces {
			b.n, b.sum = 0, 0
		}
		if b.abandoned < traces {
			b.abandoned = 0
		}
		h.all += b.n + b.abandoned
	}
}

// successes returns how many there are.
func (h *durations) successes() (n float32) {
	for i := range h.buckets {
		n += h.buckets[i].n
	}
	return n
}

// p99 returns the mean of the bucket that holds the 99th percentile; 0 if
// nothing is known.
func (h *durations) p99() time.Duration {
	above := h.successes() / 100
	for i := durationBuckets - 1; i >= 0; i-- {
		b := h.buckets[i]
		if b.n > above {
			return time.Duration(b.sum / b.n)
		}
		above -= b.n
	}
	return 0
}

// beyond estimates how long work takes on average that takes longer than d, and
// most at most.
//
// Successes alone would mislead: where callers leave, long work seldom becomes
// one. So it is the product-limit estimate for censored data (Kaplan and Meier,
// 1958): work that was abandoned at an age counts among the work that reached
// every earlier age, and for a half in the bucket of its own.
func (h *durations) beyond(d, most time.Duration) time.Duration {
	var atRisk float32 // work that reached the bucket at hand
	last := bucketOf(d)
	for i := durationBuckets - 1; i > last; i-- {
		atRisk += h.buckets[i].n + h.buckets[i].abandoned
	}
	if b := h.buckets[last]; b.sum > b.n*float32(d) {
		atRisk += b.n + b.abandoned
	} else {
		last++ // the work of this bucket took less than d
	}
	left, mean := float32(1), float32(0) // the share of the work that goes on
	for i := last; i < durationBuckets && atRisk > traces; i++ {
		b := h.buckets[i]
		if b.n > 0 {
			ends := left * min(b.n/(atRisk-b.abandoned/2), 1)
			mean += ends * b.sum / b.n
			left -= ends
		}
		atRisk -= b.n + b.abandoned
	}
	return min(time.Duration(mean)+time.Duration(left*float32(most)), most)
}
