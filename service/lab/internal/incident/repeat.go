package incident

import (
	"math"
	"slices"

	"github.com/weir-go/weir/service/lab/internal/changepoint"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// repeated says how well repeats explain the requests that came.
type repeated struct {
	better bool    // than more callers do
	equal  bool    // about as well
	share  float64 // of the requests
}

// delays are the times after which callers may repeat a request on average, in seconds.
var delays = []float64{0.02, 0.1, 0.3, 1, 3}

// repeats compares two explanations of a rise of the rate: a step to another rate, and requests that repeat the ones that were
// not served shortly before. Both are fitted by least squares to the requests of each fine span, with the same number of
// parameters. A step comes before its failures; repeats come after them.
func (c *finding) repeats(rise changepoint.Step) (r repeated) {
	n := c.a1 - c.a0
	bad := 0
	for i := c.a0; i < c.a1; i++ {
		if !served(&c.rs[i]) {
			bad++
		}
	}
	if float64(bad) < 0.1*float64(n) {
		return r
	}
	came := c.rate(func(int) bool { return true })
	from, to := c.from, max(c.fine.span(c.trouble.to), c.from+1)
	ends := c.failures()
	stepCost, repeatCost := 0.0, math.Inf(1)
	variance := max(mean(came[from:to]), 1)
	for _, part := range [][2]int{{from, min(rise.At, to)}, {min(rise.At, to), to}} {
		m := mean(came[part[0]:part[1]])
		for _, x := range came[part[0]:part[1]] {
			stepCost += (x - m) * (x - m) / variance
		}
	}
	for _, delay := range delays {
		again := c.smoothed(ends, delay)
		// came = a + b·again
		var sx, sy, sxx, sxy float64
		k := float64(to - from)
		for i := from; i < to; i++ {
			sx, sy, sxx, sxy = sx+again[i], sy+came[i], sxx+again[i]*again[i], sxy+again[i]*came[i]
		}
		den := k*sxx - sx*sx
		if den <= 0 {
			continue
		}
		b := min((k*sxy-sx*sy)/den, 1)
		a := (sy - b*sx) / k
		if b < 0.2 || a <= 0 {
			continue
		}
		cost := 0.0
		for i := from; i < to; i++ {
			off := came[i] - a - b*again[i]
			cost += off * off / variance
		}
		if cost < repeatCost {
			repeatCost = cost
			share := 0.0
			for i := c.fine.span(c.trouble.from); i < to; i++ {
				share += b * again[i]
			}
			r.share = min(share/float64(max(n, 1)), 1)
		}
	}
	noise := max(min(stepCost, repeatCost)/float64(max(to-from, 1)), 1)
	r.better = (stepCost-repeatCost)/noise > 0
	r.equal = math.Abs(stepCost-repeatCost)/noise < changepoint.Bound95
	return r
}

// failures returns when callers learned that a request was not served.
func (c *finding) failures() (all []float64) {
	usual := recorded.UsualPatience(c.rs).Seconds()
	for i := range c.rs {
		r := &c.rs[i]
		if served(r) {
			continue
		}
		wait := latency(r)
		if p := recorded.Patience(r); p > 0 {
			wait = min(wait, p.Seconds())
		} else if recorded.Abandoned(r) && usual > 0 {
			wait = min(wait, usual)
		}
		all = append(all, c.came[i]+wait)
	}
	slices.Sort(all)
	return all
}

// smoothed returns how many repeats come in each fine span, if each of the failures is repeated after an exponential delay.
func (c *finding) smoothed(failures []float64, delay float64) []float64 {
	all := make([]float64, c.fine.n)
	w := c.fine.width
	for _, at := range failures {
		k := int(at / w)
		rest := 1.0
		for ; k < len(all) && rest > 0.01; k++ {
			left := math.Exp(-(float64(k+1)*w - at) / delay)
			all[k] += rest - left
			rest = left
		}
	}
	return all
}
