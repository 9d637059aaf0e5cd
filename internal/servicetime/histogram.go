// Package servicetime estimates from the work that has ended how long work takes, and how
// fast units leave: the estimates of package gate.
package servicetime

import (
	"math/bits"
	"time"
)

// A Histogram has the durations of successful work, and the ages at which work was
// abandoned. Recent work counts more. A bucket is half an octave wide and has a sum beside
// its count: if all work takes the same time, the estimates are exact.
type Histogram struct {
	all     float32 // successes and abandoned work, in all buckets
	inRow   int     // work abandoned since the last success
	buckets [bucketCount]struct {
		n, sum    float32 // of successes
		abandoned float32
	}
}

const (
	// memory is the count at which all counts are halved.
	memory = 256

	firstOctave = 14       // the first bucket ends at 1 << firstOctave ns, that is 16 µs
	bucketCount = 2*28 + 1 // the last has no end; it begins above an hour

	traces    = 1.0 / 32 // what is less than that is forgotten
	lastKnown = 8        // successes that are remembered for as long as no others follow
	outliers  = 2        // of the longest successes that P99 leaves out, if there are others
)

func bucketOf(d time.Duration) int {
	octave := bits.Len64(uint64(max(d, 0)))
	if octave <= firstOctave {
		return 0
	}
	upper := int(uint64(d) >> (octave - 2) & 1)
	return min(2*(octave-firstOctave)-1+upper, bucketCount-1)
}

// Add learns that successful work took d.
func (h *Histogram) Add(d time.Duration) {
	b := &h.buckets[bucketOf(d)]
	b.n++
	b.sum += float32(d)
	h.inRow = 0
	h.added()
}

// AddAbandoned learns that work was abandoned at an age.
func (h *Histogram) AddAbandoned(age time.Duration) {
	h.buckets[bucketOf(age)].abandoned++
	h.inRow++
	h.added()
}

func (h *Histogram) added() {
	if h.all++; h.all <= memory {
		return
	}
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

// Known returns the number of successes and of abandoned work that count.
func (h *Histogram) Known() float32 { return h.all }

// successes returns the number of successes.
func (h *Histogram) successes() (n float32) {
	for i := range h.buckets {
		n += h.buckets[i].n
	}
	return n
}

// P99 returns the mean of the bucket that holds the 99th percentile; 0 if nothing is known.
// It leaves out the two longest successes as far as there are others: one that took an
// hour says nothing about the next, however few are known.
func (h *Histogram) P99() time.Duration {
	known := h.successes()
	if known == 0 {
		return 0
	}
	above := max(min(outliers, known-1), known/100)
	for i := bucketCount - 1; i >= 0; i-- {
		b := h.buckets[i]
		if b.n > above {
			return time.Duration(b.sum / b.n)
		}
		above -= b.n
	}
	return 0
}

// Quick returns the mean of the bucket that ends the quickest fifth of the successes; 0 if
// nothing is known.
func (h *Histogram) Quick() time.Duration {
	below := h.successes() / 5
	for i := range h.buckets {
		if b := h.buckets[i]; b.n > below {
			return time.Duration(b.sum / b.n)
		}
		below -= h.buckets[i].n
	}
	return 0
}

// Lasts estimates how long work lasts, from its start, that was abandoned at an age: as
// long as work of that age lasts on average, so that the count of units in flight is right
// on average. If no success reached that age, it is Usual at most. 0 if nothing is known.
//
// Where callers leave, long work seldom becomes a success. So it is the product-limit
// estimate for censored data (Kaplan and Meier, 1958): work that was abandoned at an age
// counts among the work that reached every earlier age, and for a half in its bucket.
//
// If so much is abandoned that nothing succeeds, there may be an unseen queue of it, in
// which work takes an unknown time: the bound then is twice, and later four times as high.
func (h *Histogram) Lasts(age time.Duration) time.Duration {
	most := h.Usual() << min(h.inRow/manyAbandoned, 2)
	var atRisk float32 // work that reached the bucket at hand
	last := bucketOf(age)
	for i := bucketCount - 1; i > last; i-- {
		atRisk += h.buckets[i].n + h.buckets[i].abandoned
	}
	if b := h.buckets[last]; b.sum > b.n*float32(age) {
		atRisk += b.n + b.abandoned
	} else {
		last++ // the work of this bucket took less than that
	}
	left, mean := float32(1), float32(0) // the share of the work that goes on
	for i := last; i < bucketCount && atRisk > traces; i++ {
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

const manyAbandoned = 128 // in a row

// Usual returns a duration that successful work seldom exceeds: twice its 99th percentile;
// 0 if nothing is known.
func (h *Histogram) Usual() time.Duration { return 2 * h.P99() }
