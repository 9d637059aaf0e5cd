package adaptive

import (
	"math"
	"time"
)

// slots is the resolution of a window: it advances in steps of a 50th of its
// length (in whole nanoseconds, rounded up), so an event counts for more than 49
// and at most 50 steps.
const slots = 50

// eventCount counts requests, and accepts or retries.
type eventCount struct{ requests, other int }

// A ring counts the events of a sliding window, in constant memory and time.
type ring struct {
	width  time.Duration // of a slot
	slot   int64         // number of the newest slot: [slot·width, (slot+1)·width)
	at     int           // index of the newest slot in counts
	counts [slots]eventCount
	sum    eventCount
}

func newRing(window time.Duration) ring {
	return ring{width: (window-1)/slots + 1, slot: math.MinInt64}
}

// advance drops the slots that have left the window at now, and returns the newest.
func (r *ring) advance(now time.Duration) *eventCount {
	slot := int64(now / r.width)
	if now%r.width < 0 {
		slot--
	}
	if slot <= r.slot {
		return &r.counts[r.at]
	}
	steps := uint64(slot) - uint64(r.slot) // correct even where an int64 would overflow
	r.slot = slot
	for range min(steps, slots) {
		r.at = (r.at + 1) % slots
		r.sum.requests -= r.counts[r.at].requests
		r.sum.other -= r.counts[r.at].other
		r.counts[r.at] = eventCount{}
	}
	return &r.counts[r.at]
}

// request counts a request at now.
func (r *ring) request(now time.Duration) {
	r.advance(now).requests++
	r.sum.requests++
}

// add counts an accept or a retry at now.
func (r *ring) add(now time.Duration) {
	r.advance(now).other++
	r.sum.other++
}
