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

// A Station models the service, behind the limit.
type Station struct {
	Workers int     `json:"workers"`    // 0: as many as come
	Sharing bool    `json:"sharing"`    // all requests work at once, and share the workers as processors
	Sigma   float64 `json:"contention"` // of the Universal Scalability Law
	Kappa   float64 `json:"coherence"`
	Queue   *int    `json:"queue"` // requests that may wait for a worker; nil is no bound
}

func (st *Station) contention() sim.Contention {
	return sim.Contention{Sigma: st.Sigma, Kappa: st.Kappa}
}

// A piece is the work of a request at a station.
type piece struct {
	work  time.Duration // without the queue; 0 if it is not known
	least time.Duration // of a request of which the caller left: the work took longer
	alone bool          // there were workers for all when it began
	begin time.Duration
}

// divide makes the work shorter by a factor.
func (p *piece) divide(factor float64) {
	if p.work > 0 {
		p.work = max(time.Duration(float64(p.work)/factor), 1)
	}
	p.least = time.Duration(float64(p.least) / factor)
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
	all := st.turns(rs, order, works{})
	if known := alone(all); slices.ContainsFunc(rs, func(r recording.Record) bool { return recorded.Unseen(&r) }) {
		all = st.turns(rs, order, known)
	}
	return all
}

// turns is pieces with a guess of the work that the recording does not have to its end.
func (st *Station) turns(rs []recording.Record, order []int, usual works) []piece {
	all := make([]piece, len(rs))
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
		factor := st.contention().Factor(busy.Len() + 1)
		end, p := r.End, &all[i]
		if work := time.Duration(float64(max(end-begin, 1)) / factor); recorded.Unseen(r) {
			*p = piece{least: work, begin: begin}
			end = max(end, begin+time.Duration(factor*float64(usual.longer(work))))
		} else {
			*p = piece{work: work, alone: !waited, begin: begin}
		}
		busy.Push(max(end, begin))
	}
	return all
}

// works are pieces of work in the order of their length, and the sums of the longest.
type works struct {
	sorted []time.Duration
	sums   []float64 // of all from an index on
}

// alone returns the work of the requests that began at once.
func alone(all []piece) (w works) {
	for _, p := range all {
		if p.work > 0 && p.alone {
			w.sorted = append(w.sorted, p.work)
		}
	}
	slices.Sort(w.sorted)
	w.sums = make([]float64, len(w.sorted)+1)
	for i, d := range slices.Backward(w.sorted) {
		w.sums[i] = w.sums[i+1] + float64(d)
	}
	return w
}

// above returns the first index of a work that is longer.
func (w works) above(d time.Duration) int {
	i, _ := slices.BinarySearch(w.sorted, d+1)
	return i
}

// longer returns the mean of the work that is longer; d if there is none.
func (w works) longer(d time.Duration) time.Duration {
	i := w.above(d)
	if i == len(w.sorted) {
		return d
	}
	return time.Duration(w.sums[i] / float64(len(w.sorted)-i))
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
		p, work := &all[e.i], time.Duration(max(clock-began[e.i], 1))
		if p.work, p.begin = work, rs[e.i].Start; recorded.Unseen(&rs[e.i]) {
			*p = piece{least: work, begin: p.begin}
		}
	}
	return all
}

// fewest is the number of requests, alone and not, from which on the two are compared.
const fewest = 30

// A bend says how much the work of a station depends on load, by the requests that began at once and the requests that had
// to wait. Of the right station, it does not depend on it.
type bend struct {
	quantiles float64 // mean distance of the quantiles, as logarithms
	mean      float64 // logarithm of the ratio of the means
	error     float64 // standard deviation of mean
	response  float64 // logarithm of the ratio of the mean response times, in which a queue shows
}

// score is small for a station that fits.
func (b bend) score() float64 { return b.quantiles + math.Abs(b.mean) }

// full reports whether the load was more than the workers could do: it shows in the response times.
func (b bend) full() bool { return b.response > max(0.1, 3*b.error) }

// bent compares the pieces of work of a station, each as a multiple of the mean of its class, since a queue may prefer some
// of them. ok is false if too few requests were alone, or not.
func bent(rs []recording.Record, all []piece) (b bend, ok bool) {
	type class struct{ work, response, n float64 }
	classes := map[uint16]*class{}
	for i, p := range all {
		if p.work > 0 && p.alone {
			c := classes[rs[i].Class]
			if c == nil {
				c = &class{}
				classes[rs[i].Class] = c
			}
			c.work, c.response, c.n = c.work+float64(p.work), c.response+float64(rs[i].Response()), c.n+1
		}
	}
	var alone, other, aloneResponse, otherResponse []float64
	for i, p := range all {
		c := classes[rs[i].Class]
		if p.work == 0 || c == nil || c.n < fewest/2 {
			continue
		}
		work, response := float64(p.work)*c.n/c.work, float64(rs[i].Response())*c.n/c.response
		if p.alone {
			alone, aloneResponse = append(alone, work), append(aloneResponse, response)
		} else {
			other, otherResponse = append(other, work), append(otherResponse, response)
		}
	}
	if len(alone) < fewest || len(other) < fewest {
		return b, false
	}
	slices.Sort(alone)
	slices.Sort(other)
	at := func(xs []float64, q float64) float64 { return math.Log(xs[int(q*float64(len(xs)))]) }
	qs := []float64{0.1, 0.25, 0.5, 0.75, 0.9}
	for _, q := range qs {
		b.quantiles += math.Abs(at(other, q)-at(alone, q)) / float64(len(qs))
	}
	mean, cv := moments(alone)
	meanOther, cvOther := moments(other)
	b.mean = math.Log(meanOther / mean)
	b.error = max(math.Sqrt(cv*cv/float64(len(alone))+cvOther*cvOther/float64(len(other))), 1e-3)
	mean, _ = moments(aloneResponse)
	meanOther, _ = moments(otherResponse)
	b.response = math.Log(meanOther / mean)
	return b, true
}

// crowded returns pieces of which the requests count as alone that came while little was in flight: those below the median.
// Of the others, a quarter remains, with the most in flight.
func crowded(rs []recording.Record, order []int, all []piece) []piece {
	levels, _ := atWork(rs, order)
	sorted := slices.Sorted(slices.Values(levels))
	all = slices.Clone(all)
	for k, i := range order {
		all[i].alone = levels[k] <= sorted[len(sorted)/2]
		if !all[i].alone && levels[k] < sorted[len(sorted)*3/4] {
			all[i].work = 0
		}
	}
	return all
}

// moments returns the mean and the coefficient of variation.
func moments(xs []float64) (mean, cv float64) {
	squares := 0.0
	for _, x := range xs {
		mean += x / float64(len(xs))
		squares += x * x / float64(len(xs))
	}
	return mean, math.Sqrt(max(squares-mean*mean, 0)) / mean
}

// A part of a recording has records in which the capacity does not change.
type part struct{ from, to int }

// A match is a station, and how well it fits a part, in which the load was more than the workers could do.
type match struct {
	Station
	bend
	part part
}

// fitting returns the stations of which the work depends on load the least, the best first: others are about as good. If n is
// not 0, it is the number of workers. If the parts differ, that with the most workers counts: where there were fewer, the same
// workers are slower.
func fitting(rs []recording.Record, order []int, parts []part, n int, sharing bool) (best []match) {
	first, last := n, n
	if n == 0 {
		first = 1
		_, last = atWork(rs, order)
	}
	found := make([][]match, len(parts))
	for n := first; n <= last; n += 1 + n/20 {
		st := Station{Workers: n, Sharing: sharing}
		pieces := st.pieces(rs, order)
		for i, p := range parts {
			if b, ok := bent(rs[p.from:p.to], pieces[p.from:p.to]); ok && b.full() {
				found[i] = append(found[i], match{st, b, p})
			}
		}
	}
	for _, all := range found {
		if len(all) == 0 {
			continue
		}
		slices.SortStableFunc(all, func(a, b match) int { return cmp.Compare(a.score(), b.score()) })
		good := all[0].score() < mostScore
		if len(best) == 0 || good && (best[0].score() >= mostScore || all[0].Workers > best[0].Workers) {
			best = all
		}
	}
	const similar = 3 // at most
	for i, m := range best {
		if i == similar || m.score() > best[0].score()+2*best[0].error {
			return best[:i]
		}
	}
	return best
}

// epochs is the number of spans of time in each of which work is as slow as it was then.
const epochs = 50

// slowdown returns how slow the work was that began in each span of a recording, which begins at from, as a factor of the
// mean; nil if the spans differ by no more than chance.
func slowdown(all []piece, from, whole time.Duration) (factors []float64) {
	var spans [epochs][]float64
	var every []float64
	for _, p := range all {
		if p.work > 0 {
			i := epoch(p.begin-from, whole)
			spans[i], every = append(spans[i], float64(p.work)), append(every, float64(p.work))
		}
	}
	mean, cv := moments(every)
	factor, squares, n := 1.0, 0.0, 0.0
	for _, span := range spans {
		if len(span) >= fewest/2 {
			own, _ := moments(span)
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
