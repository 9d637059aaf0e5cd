package throttle

import (
	"math"
	"time"
)

// slots is the granularity of every window here: it moves on by a 50th of
// itself (in whole nanoseconds, rounded up), so an event counts for more than
// 49 of these steps and for at most 50.
const slots = 50

// A tally counts requests, and accepts or retries.
type tally struct{ requests, other int }

// A ring counts the events of a sliding window, in constant memory and time.
type ring struct {
	width time.Duration // of a slot
	slot  int64         // number of the newest slot: [slot·width, (slot+1)·width)
	at    int           // its place
	of    [slots]tally
	sum   tally
}

func newRing(window time.Duration) ring {
	return ring{width: (window-1)/slots + 1, slot: math.MinInt64}
}

// advance forgets what no longer counts at now and returns the newest slot. An
// instant that is earlier than a previous one is taken as that previous one.
func (r *ring) advance(now time.Duration) *tally {
	slot := int64(now / r.width)
	if now%r.width < 0 {
		slot--
	}
	if slot <= r.slot {
		return &r.of[r.at]
	}
	steps := uint64(slot) - uint64(r.slot) // right even where an int64 would overflow
	r.slot = slot
	for range min(steps, slots) {
		r.at = (r.at + 1) % slots
		r.sum.requests -= r.of[r.at].requests
		r.sum.other -= r.of[r.at].other
		r.of[r.at] = tally{}
	}
	return &r.of[r.at]
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
