package advise

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

const (
	slots   = 120 // points of a curve over time, at most
	perSlot = 20  // requests that a slot has at least, on average
)

// A slot is a stretch of the recording.
type slot struct {
	came, served, rejected, left, failed int     // of the requests that came in it
	inflight                             float64 // requests at work, on average
	limit                                float64 // median of what was in flight when requests found the limit full; NaN if none did
	p50, p95                             float64 // latency of the served, in seconds; NaN if there are none

	levels    []int
	latencies []time.Duration
}

// series divides a recording, in the order of Intended, into slots of a length.
func series(records []recording.Record) (all []slot, length time.Duration) {
	first := records[0].Intended
	whole := max(records[len(records)-1].Intended-first, 0) // less than 0 is an overflow
	n := min(max(len(records)/perSlot, 1), slots)
	length = max(whole/time.Duration(n)+1, time.Millisecond)
	all = make([]slot, whole/length+1)
	at := func(t time.Duration) int { return min(max(int((t-first)/length), 0), len(all)-1) }
	for i := range records {
		r := &records[i]
		s := &all[at(r.Intended)]
		s.count(r)
		if recorded.AtLimit(r) {
			full := &all[at(r.Intended+r.Wait)]
			full.levels = append(full.levels, r.Inflight)
		}
		if !r.Outcome.Worked() {
			continue
		}
		for k := at(r.Start); k < len(all); k++ {
			from := first + time.Duration(k)*length
			if r.End <= from {
				break
			}
			overlap := min(r.End, from+length) - max(r.Start, from)
			all[k].inflight += max(overlap, 0).Seconds() / length.Seconds()
		}
	}
	for i := range all {
		all[i].end()
	}
	return all, length
}

func (s *slot) count(r *recording.Record) {
	s.came++
	switch o := r.Outcome; {
	case o.Success():
		s.served++
		s.latencies = append(s.latencies, r.Latency())
	case o.Rejected():
		s.rejected++
	case recorded.Abandoned(r):
		s.left++
	default:
		s.failed++
	}
}

// end turns what has been collected into quantiles.
func (s *slot) end() {
	s.limit, s.p50, s.p95 = math.NaN(), math.NaN(), math.NaN()
	if n := len(s.levels); n > 0 {
		slices.Sort(s.levels)
		s.limit = float64(s.levels[n/2])
	}
	if n := len(s.latencies); n > 0 {
		slices.Sort(s.latencies)
		s.p50, s.p95 = s.latencies[n/2].Seconds(), s.latencies[min(n*95/100, n-1)].Seconds()
	}
	s.levels, s.latencies = nil, nil
}
