// Package changepoint finds out when a quantity of a recording changed: the number, the share or the mean time of requests, by spans
// of time.
package changepoint

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// A kind is a distribution of the values of a series.
type kind uint8

const (
	normal   kind = iota // of a mean; weight is one over the variance
	poisson              // of a count; weight is 1
	binomial             // of a share; weight is the number of requests
)

// A Series has a value for each span of time, with a weight. A span with the weight 0 has none.
type Series struct {
	kind
	x, weight []float64
	noise     float64 // by what factor the variance is greater than the distribution says

	sum, first, second []float64 // of the weights, of weight·x and of weight·x², of all spans before an index
}

// newSeries estimates the noise from the differences of values that follow each other, which a change does not enlarge. like
// has the values on a scale on which they have the variance 1/weight.
func newSeries(k kind, x, weight, like []float64) *Series {
	s := &Series{kind: k, x: x, weight: weight, noise: 1}
	var squares []float64
	last := -1
	for i, w := range weight {
		if w == 0 {
			continue
		}
		if last >= 0 {
			squares = append(squares, (like[i]-like[last])*(like[i]-like[last])/(1/w+1/weight[last]))
		}
		last = i
	}
	if len(squares) > 0 {
		slices.Sort(squares)
		s.noise = max(squares[len(squares)/2]/0.455, 1) // the median of a squared normal deviation
	}
	s.sum, s.first, s.second = make([]float64, len(x)+1), make([]float64, len(x)+1), make([]float64, len(x)+1)
	for i, w := range weight {
		s.sum[i+1], s.first[i+1], s.second[i+1] = s.sum[i]+w, s.first[i]+w*x[i], s.second[i]+w*x[i]*x[i]
	}
	return s
}

// Counts returns a series of counts. Their square roots have the same variance (Anscombe, 1948).
func Counts(ns []float64) *Series {
	like, weight := make([]float64, len(ns)), make([]float64, len(ns))
	for i, n := range ns {
		like[i], weight[i] = 2*math.Sqrt(n+3./8), 1
	}
	return newSeries(poisson, ns, weight, like)
}

// Shares returns a series of shares k/n. The arc sines of their square roots have the variance 1/n.
func Shares(ks, ns []float64) *Series {
	x, like := make([]float64, len(ns)), make([]float64, len(ns))
	for i, n := range ns {
		x[i], like[i] = ks[i]/max(n, 1), 2*math.Asin(math.Sqrt((ks[i]+3./8)/(n+3./4)))
	}
	return newSeries(binomial, x, ns, like)
}

// A Sample has the number of values, such as those of the requests of a span, their sum and the sum of their squares.
type Sample struct{ N, Sum, squares float64 }

// Add adds a value.
func (s *Sample) Add(x float64) { s.N, s.Sum, s.squares = s.N+1, s.Sum+x, s.squares+x*x }

// Mean is the mean of the values; 0 if there are none.
func (s Sample) Mean() float64 { return s.Sum / max(s.N, 1) }

// Variance is the variance of the mean; infinite for fewer than two values.
func (s Sample) Variance() float64 {
	if s.N < 2 {
		return math.Inf(1)
	}
	return max(s.squares/s.N-s.Mean()*s.Mean(), 0) / (s.N - 1)
}

// Join returns both samples as one.
func (s Sample) Join(o Sample) Sample { return Sample{s.N + o.N, s.Sum + o.Sum, s.squares + o.squares} }

// Means returns a series of means.
func Means(all []Sample) *Series {
	x, weight := make([]float64, len(all)), make([]float64, len(all))
	within, freedom := 0.0, 0.0
	for i, s := range all {
		if s.N > 0 {
			x[i] = s.Sum / s.N
			within, freedom = within+s.squares-s.Sum*s.Sum/s.N, freedom+s.N-1
		}
	}
	variance := max(within/max(freedom, 1), 1e-4) // of a request
	for i, s := range all {
		weight[i] = s.N / variance
	}
	return newSeries(normal, x, weight, x)
}

// Mean returns the mean from a span to another.
func (s *Series) Mean(from, to int) float64 {
	return (s.first[to] - s.first[from]) / max(s.sum[to]-s.sum[from], 1e-300)
}

// cost returns how unlikely the values are, if their mean does not change: −2 times the logarithm of the likelihood, but for a
// constant.
func (s *Series) cost(from, to int) float64 {
	w, f := s.sum[to]-s.sum[from], s.first[to]-s.first[from]
	if w <= 0 {
		return 0
	}
	switch s.kind {
	case poisson:
		return 2 * (f - plog(f, f/w)) / s.noise
	case binomial:
		return -2 * (plog(f, f/w) + plog(w-f, 1-f/w)) / s.noise
	default:
		return max(s.second[to]-s.second[from]-f*f/w, 0) / s.noise
	}
}

// plog returns n·log(p), which is 0 for n = 0.
func plog(n, p float64) float64 {
	if n <= 0 || p <= 0 {
		return 0
	}
	return n * math.Log(p)
}

// gain returns by how much a change at an instant makes the values more likely.
func (s *Series) gain(from, at, to int) float64 {
	if s.sum[at] == s.sum[from] || s.sum[to] == s.sum[at] {
		return 0
	}
	return max(s.cost(from, to)-s.cost(from, at)-s.cost(at, to), 0)
}

// Segments divides a series into segments of one mean each, and returns where they begin and end. It is PELT (Killick,
// Fearnhead and Eckley, 2012): the division with the least cost, of which each change costs a penalty.
func (s *Series) Segments() []int {
	n := len(s.x)
	penalty := 4 * math.Log(float64(n)+1)
	best, last := make([]float64, n+1), make([]int, n+1)
	best[0] = -penalty
	open := []int{0}
	for to := 1; to <= n; to++ {
		best[to] = math.Inf(1)
		for _, from := range open {
			if c := best[from] + s.cost(from, to) + penalty; c < best[to] {
				best[to], last[to] = c, from
			}
		}
		kept := open[:0]
		for _, from := range open {
			if best[from]+s.cost(from, to) <= best[to] {
				kept = append(kept, from)
			}
		}
		open = append(kept, to)
	}
	all := []int{n}
	for to := n; to > 0; to = last[to] {
		all = append(all, last[to])
	}
	slices.Reverse(all)
	return all
}

// A Step is one change of the mean of a series.
type Step struct {
	At        int     // the first span after it
	Low, High int     // with 95 %
	Before    float64 // the mean
	After     float64
	Chance    float64 // of such a change at any instant, if there is none

	gain float64 // of the likelihood, twice the logarithm
}

// Bound95 is the ratio of likelihoods, twice its logarithm, of the instants in an interval of 95 % for a change (Hansen,
// Sample splitting and threshold estimation, 2000).
const Bound95 = 7.35

// Onset finds the most likely change from a span to another, and then looks before it for one that is a third as large: what goes
// wrong often gets worse in the seconds that follow.
func (s *Series) Onset(from, to int) (st Step, ok bool) {
	st, ok = s.step(from, to)
	for ok {
		earlier, found := s.step(from, st.At)
		if !found || earlier.Chance > 1e-6 || (earlier.After-earlier.Before)/(st.After-st.Before) < 1./3 {
			break
		}
		earlier.After = s.Mean(earlier.At, to)
		st = earlier
	}
	return st, ok
}

// step finds the most likely change from a span to another (Hinkley, Inference about the change-point, 1970). ok is false if
// there is too little.
func (s *Series) step(from, to int) (st Step, ok bool) {
	const least = 3 // spans on each side
	for at := from + least; at <= to-least; at++ {
		if g := s.gain(from, at, to); g > st.gain {
			st.At, st.gain = at, g
		}
	}
	if st.At == 0 {
		return st, false
	}
	st.Low, st.High = st.At, st.At
	for at := from + least; at <= to-least; at++ {
		if s.gain(from, at, to) >= st.gain-Bound95 {
			st.Low, st.High = min(st.Low, at), max(st.High, at)
		}
	}
	st.Low = max(st.Low-1, from) // the change was within a span
	st.Before, st.After = s.Mean(from, st.At), s.Mean(st.At, to)
	st.Chance = s.Chance(from, st.At, to)
	return st, true
}

// Chance returns the probability that a change at one of the instants gains as much, if there is none (Bonferroni).
func (s *Series) Chance(from, at, to int) float64 {
	return min(2*distuv.UnitNormal.Survival(math.Sqrt(s.gain(from, at, to)))*float64(to-from), 1)
}
