package incident

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

// A series has a value for each span of time, with a weight. A span with the weight 0 has none.
type series struct {
	kind
	x, weight []float64
	noise     float64 // by what factor the variance is greater than the distribution says

	sum, first, second []float64 // of the weights, of weight·x and of weight·x², of all spans before an index
}

// newSeries estimates the noise from the differences of values that follow each other, which a change does not enlarge. like
// has the values on a scale on which they have the variance 1/weight.
func newSeries(k kind, x, weight, like []float64) *series {
	s := &series{kind: k, x: x, weight: weight, noise: 1}
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

// counts returns a series of counts. Their square roots have the same variance (Anscombe, 1948).
func counts(ns []float64) *series {
	like, weight := make([]float64, len(ns)), make([]float64, len(ns))
	for i, n := range ns {
		like[i], weight[i] = 2*math.Sqrt(n+3./8), 1
	}
	return newSeries(poisson, ns, weight, like)
}

// shares returns a series of shares k/n. The arc sines of their square roots have the variance 1/n.
func shares(ks, ns []float64) *series {
	x, like := make([]float64, len(ns)), make([]float64, len(ns))
	for i, n := range ns {
		x[i], like[i] = ks[i]/max(n, 1), 2*math.Asin(math.Sqrt((ks[i]+3./8)/(n+3./4)))
	}
	return newSeries(binomial, x, ns, like)
}

// A sample has the values of the requests of a span.
type sample struct{ n, sum, squares float64 }

func (s *sample) add(x float64) { s.n, s.sum, s.squares = s.n+1, s.sum+x, s.squares+x*x }

func (s sample) mean() float64 { return s.sum / max(s.n, 1) }

// variance is the variance of the mean.
func (s sample) variance() float64 {
	if s.n < 2 {
		return math.Inf(1)
	}
	return max(s.squares/s.n-s.mean()*s.mean(), 0) / (s.n - 1)
}

func (s sample) join(o sample) sample { return sample{s.n + o.n, s.sum + o.sum, s.squares + o.squares} }

// means returns a series of means.
func means(all []sample) *series {
	x, weight := make([]float64, len(all)), make([]float64, len(all))
	within, freedom := 0.0, 0.0
	for i, s := range all {
		if s.n > 0 {
			x[i] = s.sum / s.n
			within, freedom = within+s.squares-s.sum*s.sum/s.n, freedom+s.n-1
		}
	}
	variance := max(within/max(freedom, 1), 1e-4) // of a request
	for i, s := range all {
		weight[i] = s.n / variance
	}
	return newSeries(normal, x, weight, x)
}

// mean returns the mean from a span to another.
func (s *series) mean(from, to int) float64 {
	return (s.first[to] - s.first[from]) / max(s.sum[to]-s.sum[from], 1e-300)
}

// cost returns how unlikely the values are, if their mean does not change: −2 times the logarithm of the likelihood, but for a
// constant.
func (s *series) cost(from, to int) float64 {
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
func (s *series) gain(from, at, to int) float64 {
	if s.sum[at] == s.sum[from] || s.sum[to] == s.sum[at] {
		return 0
	}
	return max(s.cost(from, to)-s.cost(from, at)-s.cost(at, to), 0)
}

// changes divides a series into segments of one mean each, and returns where they begin and end. It is PELT (Killick,
// Fearnhead and Eckley, 2012): the division with the least cost, of which each change costs a penalty.
func (s *series) changes() []int {
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

// A step is one change of the mean of a series.
type step struct {
	at        int // the first span after it
	low, high int // with 95 %
	before    float64
	after     float64
	gain      float64 // of the likelihood, twice the logarithm
	chance    float64 // of such a change at any instant, if there is none
}

// bound95 is the ratio of likelihoods, twice its logarithm, of the instants in an interval of 95 % for a change (Hansen,
// Sample splitting and threshold estimation, 2000).
const bound95 = 7.35

// onset finds the most likely change from a span to another, and then looks before it for one that is a third as large: what goes
// wrong often gets worse in the seconds that follow.
func (s *series) onset(from, to int) (st step, ok bool) {
	st, ok = s.step(from, to)
	for ok {
		earlier, found := s.step(from, st.at)
		if !found || earlier.chance > 1e-6 || (earlier.after-earlier.before)/(st.after-st.before) < 1./3 {
			break
		}
		earlier.after = s.mean(earlier.at, to)
		st = earlier
	}
	return st, ok
}

// step finds the most likely change from a span to another (Hinkley, Inference about the change-point, 1970). ok is false if
// there is too little.
func (s *series) step(from, to int) (st step, ok bool) {
	const least = 3 // spans on each side
	for at := from + least; at <= to-least; at++ {
		if g := s.gain(from, at, to); g > st.gain {
			st.at, st.gain = at, g
		}
	}
	if st.at == 0 {
		return st, false
	}
	st.low, st.high = st.at, st.at
	for at := from + least; at <= to-least; at++ {
		if s.gain(from, at, to) >= st.gain-bound95 {
			st.low, st.high = min(st.low, at), max(st.high, at)
		}
	}
	st.low = max(st.low-1, from) // the change was within a span
	st.before, st.after = s.mean(from, st.at), s.mean(st.at, to)
	st.chance = s.chance(from, st.at, to)
	return st, true
}

// chance returns the probability that a change at one of the instants gains as much, if there is none (Bonferroni).
func (s *series) chance(from, at, to int) float64 {
	return min(2*distuv.UnitNormal.Survival(math.Sqrt(s.gain(from, at, to)))*float64(to-from), 1)
}
