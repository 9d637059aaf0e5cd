package fleet

import (
	"math"
	"time"
)

// notKnown is the rate of a node that has none.
var notKnown = math.NaN()

// A decaying estimates a rate of events over about optimisticMemory.
type decaying struct {
	sum       float64
	at, since time.Duration
	begun     bool
}

func (d *decaying) add(now time.Duration, n float64) {
	if !d.begun {
		d.at, d.since, d.begun = now, now-optimisticEvery, true
	}
	d.decay(now)
	d.sum += n
}

func (d *decaying) decay(now time.Duration) {
	d.sum *= math.Exp(-float64(now-d.at) / float64(optimisticMemory))
	d.at = now
}

// rate returns events a second. It corrects for the time before the first event.
func (d *decaying) rate(now time.Duration) float64 {
	d.decay(now)
	seen := 1 - math.Exp(-float64(now-d.since)/float64(optimisticMemory))
	return d.sum / optimisticMemory.Seconds() / seen
}
