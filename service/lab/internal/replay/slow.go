package replay

import (
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// epochs is the number of spans of time in each of which work is as slow as it was then.
const epochs = 50

// slowdown returns how slow the work was that began in each span of a recording, which begins at from, as a factor of the
// mean of each class; nil if the spans differ by no more than chance.
func slowdown(all []station.Piece, rs []recording.Record, from, whole time.Duration) (factors []float64) {
	type class struct{ work, n float64 }
	classes := map[uint16]class{}
	for i, p := range all {
		if p.Work > 0 {
			c := classes[rs[i].Class]
			classes[rs[i].Class] = class{c.work + float64(p.Work), c.n + 1}
		}
	}
	var spans [epochs][]float64
	var every []float64
	for i, p := range all {
		if p.Work > 0 {
			c := classes[rs[i].Class]
			k, work := epoch(p.Begin-from, whole), float64(p.Work)*c.n/c.work
			spans[k], every = append(spans[k], work), append(every, work)
		}
	}
	mean, cv := station.Moments(every)
	factor, squares, n := 1.0, 0.0, 0.0
	for _, span := range spans {
		if len(span) >= station.Fewest/2 {
			own, _ := station.Moments(span)
			factor = own / mean
			squares += (factor - 1) * (factor - 1) * float64(len(span)) / (cv * cv)
			n++
		}
		factors = append(factors, factor)
	}
	if squares < beyondChance*n {
		return nil
	}
	return factors
}

// beyondChance is the mean squared deviation of the spans, in standard deviations, that shows a change. By chance it is 1.
const beyondChance = 3

// epoch returns the span of an instant.
func epoch(at, whole time.Duration) int {
	return min(max(int(float64(at)/float64(whole)*epochs), 0), epochs-1)
}
