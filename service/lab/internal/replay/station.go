package replay

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/heap"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A Station is what the service is taken for: workers, behind the limit.
type Station struct {
	Workers    int            `json:"workers"` // 0: as many as come
	Sharing    bool           `json:"sharing"` // all requests work at once, and share the workers as processors
	Contention sim.Contention `json:"contention"`
	Queue      *int           `json:"queue"` // requests that may wait for a worker; nil is no bound
}

// A piece is the work of a request at a station.
type piece struct {
	work  time.Duration // without the queue; 0 if it is not known
	alone bool          // there were workers for all when it began
}

// admitted returns the indices of the requests that a service worked on, in the order in which it got them.
func admitted(rs []recording.Record) (all []int) {
	for i := range rs {
		if holds(&rs[i]) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(rs[a].Start, rs[b].Start) })
	return all
}

// holds reports whether a request got a worker, or would have.
func holds(r *recording.Record) bool { return r.Outcome.Worked() && !refused(r) }

// pieces returns the work of each request, in the order of the records, as it must have been if the service was this
// station: a request begins when it comes or, if no worker is free, when the first of the earlier ones ends.
func (st *Station) pieces(rs []recording.Record, order []int) []piece {
	if st.Sharing {
		return st.shares(rs, order)
	}
	all := make([]piece, len(rs))
	usual := 0.0 // mean of the work that began without a wait: stands for the work that is not seen
	known := 0.0
	busy := heap.New(func(a, b time.Duration) bool { return a < b })
	for _, i := range order {
		r := &rs[i]
		begin, waited := r.Start, false
		for busy.Len() > 0 && busy.Min() <= begin {
			busy.Pop()
		}
		if st.Workers > 0 && busy.Len() >= st.Workers {
			begin, waited = busy.Pop(), true
		}
		factor := st.Contention.Factor(busy.Len() + 1)
		end := r.End
		if recorded.Unseen(r) {
			end = max(end, begin+time.Duration(usual/max(known, 1)*factor))
		} else {
			work := time.Duration(float64(max(end-begin, 1)) / factor)
			all[i] = piece{work, !waited}
			if !waited {
				usual, known = usual+float64(work), known+1
			}
		}
		busy.Push(max(end, begin))
	}
	return all
}

// shares is pieces of workers that requests share: each has the speed min(1, workers/n) of n.
func (st *Station) shares(rs []recording.Record, order []int) []piece {
	all := make([]piece, len(rs))
	type edge struct {
		at    time.Duration
		i     int
		begin bool
	}
	var edges []edge
	for _, i := range order {
		edges = append(edges, edge{rs[i].Start, i, true}, edge{max(rs[i].End, rs[i].Start), i, false})
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	began := make([]float64, len(rs))
	clock, n, last := 0.0, 0, time.Duration(0)
	for _, e := range edges {
		if n > 0 {
			clock += float64(e.at-last) * min(1, float64(st.Workers)/float64(n))
		}
		last = e.at
		if e.begin {
			n++
			began[e.i] = clock
			all[e.i].alone = n <= st.Workers
			continue
		}
		n--
		if all[e.i].work = time.Duration(max(clock-began[e.i], 1)); recorded.Unseen(&rs[e.i]) {
			all[e.i] = piece{}
		}
	}
	return all
}

// fewest is the number of requests, alone and not, from which on the two are compared.
const fewest = 30

// bent returns how much the work of a station depends on load, as a difference of logarithms of its quantiles and of its
// mean. Of the right station, it does not. ok is false if the recording has too few requests in either state.
func bent(all []piece) (quantiles, mean float64, ok bool) {
	var alone, other []float64
	for _, p := range all {
		switch {
		case p.work == 0:
		case p.alone:
			alone = append(alone, float64(p.work))
		default:
			other = append(other, float64(p.work))
		}
	}
	if len(alone) < fewest || len(other) < fewest {
		return 0, 0, false
	}
	slices.Sort(alone)
	slices.Sort(other)
	at := func(xs []float64, q float64) float64 { return math.Log(xs[int(q*float64(len(xs)))]) }
	qs := []float64{0.1, 0.25, 0.5, 0.75, 0.9}
	for _, q := range qs {
		quantiles += math.Abs(at(other, q)-at(alone, q)) / float64(len(qs))
	}
	return quantiles, math.Log(average(other) / average(alone)), true
}

func average(xs []float64) (mean float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	return mean
}

// stations returns what the service may be: with the workers of the fit, or with the number for which work depends on
// load the least, one after the other or all at once.
func stations(rs []recording.Record, order []int, fit Station) []Station {
	all := []Station{fit}
	_, most := atWork(rs, order)
	for _, sharing := range []bool{false, true} {
		best, least := Station{}, math.Inf(1)
		for n := 1; n <= most; n += 1 + n/20 {
			st := Station{Workers: n, Sharing: sharing}
			if quantiles, mean, ok := bent(st.pieces(rs, order)); ok && quantiles+math.Abs(mean) < least {
				best, least = st, quantiles+math.Abs(mean)
			}
		}
		if best.Workers > 0 {
			all = append(all, best)
		}
	}
	return all
}
