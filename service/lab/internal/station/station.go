// Package station models a service as a number of workers with a queue, and finds out of a recording how many there are.
//
// For each number, the work of each request follows: a request begins when it comes or, if all workers are busy, when one
// of them gets free. Of the right number, requests that had to wait work as long as requests that did not.
package station

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A Station models the service, behind the limit.
type Station struct {
	Workers int     `json:"workers"`    // 0: as many as come
	Sharing bool    `json:"sharing"`    // all requests work at once, and share the workers as processors
	Sigma   float64 `json:"contention"` // of the Universal Scalability Law
	Kappa   float64 `json:"coherence"`
	Queue   *int    `json:"queue"` // requests that may wait for a worker; nil is no bound
}

// Contention returns the contention as a simulation has it.
func (st *Station) Contention() sim.Contention {
	return sim.Contention{Sigma: st.Sigma, Kappa: st.Kappa}
}

// A Piece is the work of a request at a station.
type Piece struct {
	Work  time.Duration // without the queue; 0 if it is not known
	Least time.Duration // of a request of which the caller left: the work took longer
	Alone bool          // there were workers for all when it began
	Begin time.Duration
}

// Divide makes the work shorter by a factor.
func (p *Piece) Divide(factor float64) {
	if p.Work > 0 {
		p.Work = max(time.Duration(float64(p.Work)/factor), 1)
	}
	p.Least = time.Duration(float64(p.Least) / factor)
}

// Admitted returns the indices of the requests that a service worked on, in the order in which it got them.
func Admitted(rs []recording.Record) (all []int) {
	for i := range rs {
		if holds(&rs[i]) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(rs[a].Start, rs[b].Start) })
	return all
}

// holds reports whether a request got a worker, or would have.
func holds(r *recording.Record) bool { return r.Outcome.Worked() && !Refused(r) }

// Pieces returns the work of each request, in the order of the records, as it must have been if the service was this
// station: a request begins when it comes or, if no worker is free, when the first of the earlier ones ends.
func (st *Station) Pieces(rs []recording.Record, order []int) []Piece {
	if st.Sharing {
		return st.shares(rs, order)
	}
	all := st.turns(rs, order, Works{})
	if known := Alone(all); slices.ContainsFunc(rs, func(r recording.Record) bool { return recorded.Unseen(&r) }) {
		all = st.turns(rs, order, known)
	}
	return all
}

// turns is Pieces with a guess of the work that the recording does not have to its end.
func (st *Station) turns(rs []recording.Record, order []int, usual Works) []Piece {
	all := make([]Piece, len(rs))
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
		factor := st.Contention().Factor(busy.Len() + 1)
		end, p := r.End, &all[i]
		if work := time.Duration(float64(max(end-begin, 1)) / factor); recorded.Unseen(r) {
			*p = Piece{Least: work, Begin: begin}
			end = max(end, begin+time.Duration(factor*float64(usual.longer(work))))
		} else {
			*p = Piece{Work: work, Alone: !waited, Begin: begin}
		}
		busy.Push(max(end, begin))
	}
	return all
}

// Works are pieces of work in the order of their length, and the sums of the longest.
type Works struct {
	Sorted []time.Duration
	sums   []float64 // of all from an index on
}

// Alone returns the work of the requests that began at once.
func Alone(all []Piece) (w Works) {
	for _, p := range all {
		if p.Work > 0 && p.Alone {
			w.Sorted = append(w.Sorted, p.Work)
		}
	}
	slices.Sort(w.Sorted)
	w.sums = make([]float64, len(w.Sorted)+1)
	for i, d := range slices.Backward(w.Sorted) {
		w.sums[i] = w.sums[i+1] + float64(d)
	}
	return w
}

// Mean returns the mean; 0 if there are none.
func (w Works) Mean() time.Duration { return w.longer(0) }

// Above returns the first index of a work that is longer.
func (w Works) Above(d time.Duration) int {
	i, _ := slices.BinarySearch(w.Sorted, d+1)
	return i
}

// longer returns the mean of the work that is longer; d if there is none.
func (w Works) longer(d time.Duration) time.Duration {
	i := w.Above(d)
	if i == len(w.Sorted) {
		return d
	}
	return time.Duration(w.sums[i] / float64(len(w.Sorted)-i))
}

// shares is Pieces of workers that requests share: each has the speed min(1, workers/n) of n.
func (st *Station) shares(rs []recording.Record, order []int) []Piece {
	all := make([]Piece, len(rs))
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
			all[e.i].Alone = n <= st.Workers
			continue
		}
		n--
		p, work := &all[e.i], time.Duration(max(clock-began[e.i], 1))
		if p.Work, p.Begin = work, rs[e.i].Start; recorded.Unseen(&rs[e.i]) {
			*p = Piece{Least: work, Begin: p.Begin}
		}
	}
	return all
}

// Fewest is the number of requests, alone and not, from which on the two are compared.
const Fewest = 30

// A Bend says how much the work of a station depends on load, by the requests that began at once and the requests that had
// to wait. Of the right station, it does not depend on it.
type Bend struct {
	quantiles float64 // mean distance of the quantiles, as logarithms
	Mean      float64 // logarithm of the ratio of the means
	Error     float64 // standard deviation of mean
	response  float64 // logarithm of the ratio of the mean response times, in which a queue shows
}

// Score is small for a station that fits.
func (b Bend) Score() float64 { return b.quantiles + math.Abs(b.Mean) }

// full reports whether the load was more than the workers could do: it shows in the response times.
func (b Bend) full() bool { return b.response > max(0.1, 3*b.Error) }

// Bent compares the Pieces of a station, each as a multiple of the mean of its class, since a queue may prefer some
// of them. ok is false if too few requests were alone, or not.
func Bent(rs []recording.Record, all []Piece) (b Bend, ok bool) {
	type class struct{ work, response, n float64 }
	classes := map[uint16]*class{}
	for i, p := range all {
		if p.Work > 0 && p.Alone {
			c := classes[rs[i].Class]
			if c == nil {
				c = &class{}
				classes[rs[i].Class] = c
			}
			c.work, c.response, c.n = c.work+float64(p.Work), c.response+float64(rs[i].Response()), c.n+1
		}
	}
	var alone, other, aloneResponse, otherResponse []float64
	for i, p := range all {
		c := classes[rs[i].Class]
		if p.Work == 0 || c == nil || c.n < Fewest/2 {
			continue
		}
		work, response := float64(p.Work)*c.n/c.work, float64(rs[i].Response())*c.n/c.response
		if p.Alone {
			alone, aloneResponse = append(alone, work), append(aloneResponse, response)
		} else {
			other, otherResponse = append(other, work), append(otherResponse, response)
		}
	}
	if len(alone) < Fewest || len(other) < Fewest {
		return b, false
	}
	b.quantiles = ShapeOf(other).Off(ShapeOf(alone), 0)
	mean, cv := Moments(alone)
	meanOther, cvOther := Moments(other)
	b.Mean = math.Log(meanOther / mean)
	b.Error = max(math.Sqrt(cv*cv/float64(len(alone))+cvOther*cvOther/float64(len(other))), 1e-3)
	mean, _ = Moments(aloneResponse)
	meanOther, _ = Moments(otherResponse)
	b.response = math.Log(meanOther / mean)
	return b, true
}

// Crowded returns pieces of which the requests count as alone that came while little was in flight: those below the median.
// Of the others, a quarter remains, with the most in flight.
func Crowded(rs []recording.Record, order []int, all []Piece) []Piece {
	levels, _ := AtWork(rs, order)
	sorted := slices.Sorted(slices.Values(levels))
	all = slices.Clone(all)
	for k, i := range order {
		all[i].Alone = levels[k] <= sorted[len(sorted)/2]
		if !all[i].Alone && levels[k] < sorted[len(sorted)*3/4] {
			all[i].Work = 0
		}
	}
	return all
}

// Moments returns the mean and the coefficient of variation; that is 1 if it is not known.
func Moments(xs []float64) (mean, cv float64) {
	mean, deviation := stat.MeanStdDev(xs, nil)
	if len(xs) == 0 {
		mean = 0
	}
	if mean == 0 || len(xs) < 2 {
		return mean, 1
	}
	return mean, deviation / mean
}

// quantiles are compared to tell whether work is the same.
var quantiles = [...]float64{0.1, 0.25, 0.5, 0.75, 0.9}

// A Shape has the logarithms of quantiles of work.
type Shape struct {
	at   [len(quantiles)]float64
	Mean float64
	N    float64 // pieces of work
}

// ShapeOf sorts works, of which there is one or more.
func ShapeOf(works []float64) (s Shape) {
	slices.Sort(works)
	s.Mean, _ = Moments(works)
	s.N = float64(len(works))
	for k, q := range quantiles {
		s.at[k] = math.Log(works[int(q*float64(len(works)))])
	}
	return s
}

// Off returns how far a shape is from another one that is factor (a logarithm) times as long.
func (s Shape) Off(o Shape, factor float64) (sum float64) {
	for k := range s.at {
		sum += math.Abs(s.at[k]-o.at[k]-factor) / float64(len(s.at))
	}
	return sum
}

// Longer returns by which factor, as a logarithm, a shape is longer than another.
func (s Shape) Longer(o Shape) (sum float64) {
	for k := range s.at {
		sum += (s.at[k] - o.at[k]) / float64(len(s.at))
	}
	return sum
}

// A Part of a recording has records, by their indices, in which the capacity does not change.
type Part struct{ From, To int }

// mostScore is the highest score of a station that fits.
const mostScore = 0.3

// A Match is a station, and how well it fits a part, in which the load was more than the workers could do.
type Match struct {
	Station
	Bend
	Part Part
}

// Fitting returns the stations of which the work depends on load the least, the best first: others are about as good. If n is
// not 0, it is the number of workers. If the parts differ, that with the most workers counts: where there were fewer, the same
// workers are slower.
func Fitting(rs []recording.Record, order []int, parts []Part, n int, sharing bool) (best []Match) {
	first, last := n, n
	if n == 0 {
		first = 1
		_, last = AtWork(rs, order)
	}
	found := make([][]Match, len(parts))
	for n := first; n <= last; n += 1 + n/20 {
		st := Station{Workers: n, Sharing: sharing}
		pieces := st.Pieces(rs, order)
		for i, p := range parts {
			if b, ok := Bent(rs[p.From:p.To], pieces[p.From:p.To]); ok && b.full() {
				found[i] = append(found[i], Match{st, b, p})
			}
		}
	}
	for _, all := range found {
		if len(all) == 0 {
			continue
		}
		slices.SortStableFunc(all, func(a, b Match) int { return cmp.Compare(a.Score(), b.Score()) })
		good := all[0].Score() < mostScore
		if len(best) == 0 || good && (best[0].Score() >= mostScore || all[0].Workers > best[0].Workers) {
			best = all
		}
	}
	const similar = 3 // at most
	for i, m := range best {
		if i == similar || m.Score() > best[0].Score()+2*best[0].Error {
			return best[:i]
		}
	}
	return best
}

// String describes the station.
func (st Station) String() string {
	text := table.Count(st.Workers, "worker")
	switch {
	case st.Workers == 0:
		text = "as many workers as come"
	case st.Sharing:
		text = table.Count(st.Workers, "processor") + ", which requests share"
	}
	if st.Sigma > 0 || st.Kappa > 0 {
		text += fmt.Sprintf(", contention σ %.2g, κ %.2g", st.Sigma, st.Kappa)
	}
	if st.Queue != nil {
		text += fmt.Sprintf(", queue %d", *st.Queue)
	}
	return text
}

// Refused reports whether the service itself turned a request away.
func Refused(r *recording.Record) bool {
	return r.Outcome == recording.Rejected(0) || r.Outcome == recording.Ended(weir.Dropped)
}

// AtWork returns how many requests were in flight when each of the order began, and the most.
func AtWork(rs []recording.Record, order []int) (levels []int, most int) {
	ends := heap.New(func(a, b time.Duration) bool { return a < b })
	for _, i := range order {
		for ends.Len() > 0 && ends.Min() <= rs[i].Start {
			ends.Pop()
		}
		ends.Push(rs[i].End)
		levels = append(levels, ends.Len())
		most = max(most, ends.Len())
	}
	return levels, most
}
