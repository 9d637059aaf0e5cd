package incident

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// quantiles are compared to tell slower work from fewer workers.
var quantiles = []float64{0.1, 0.25, 0.5, 0.75, 0.9}

// A shape has the logarithms of quantiles of work, in units of the usual work of a class.
type shape struct {
	at   [5]float64
	mean float64
	n    int
}

func shapeOf(works []float64) (s shape) {
	slices.Sort(works)
	s.n = len(works)
	s.mean, _ = station.Moments(works)
	for k, q := range quantiles {
		s.at[k] = math.Log(works[int(q*float64(len(works)))])
	}
	return s
}

// off returns how far a shape is from another one that is factor (a logarithm) times as long.
func (s shape) off(o shape, factor float64) (sum float64) {
	for k := range s.at {
		sum += math.Abs(s.at[k]-o.at[k]-factor) / float64(len(s.at))
	}
	return sum
}

// longer returns by which factor, as a logarithm, a shape is longer than another.
func (s shape) longer(o shape) (sum float64) {
	for k := range s.at {
		sum += (s.at[k] - o.at[k]) / float64(len(s.at))
	}
	return sum
}

// A station model of the service: the same number of workers at each origin.
type pieces struct {
	station.Station
	all []station.Piece
}

// at returns the pieces of work at stations of n workers, one for each origin.
func (c *finding) at(st station.Station) pieces {
	p := pieces{Station: st}
	for _, order := range c.orders() {
		own := st.Pieces(c.rs, order)
		if p.all == nil {
			p.all = own
			continue
		}
		for _, i := range order {
			p.all[i] = own[i]
		}
	}
	return p
}

// orders returns the requests that the service worked on, by origin.
func (c *finding) orders() (all [][]int) {
	by := map[uint8][]int{}
	for _, i := range station.Admitted(c.rs) {
		by[c.rs[i].Origin] = append(by[c.rs[i].Origin], i)
	}
	for _, o := range slices.Sorted(mapsKeys(by)) {
		all = append(all, by[o])
	}
	return all
}

// peak returns the most requests at work at an origin, of the requests from an index to another.
func (c *finding) peak(from, to int) (most int) {
	for _, order := range c.orders() {
		levels, _ := station.AtWork(c.rs, order)
		for k, i := range order {
			if i >= from && i < to {
				most = max(most, levels[k])
			}
		}
	}
	return most
}

// relative returns the known pieces of work of a part, as multiples of the usual work of their classes.
func (c *finding) relative(p pieces, from, to int, usual map[uint16]float64) (all, alone []float64) {
	for i := from; i < to; i++ {
		u := usual[c.rs[i].Class]
		if u == 0 || p.all[i].Work == 0 || !known(&c.rs[i]) {
			continue
		}
		x := p.all[i].Work.Seconds() / u
		all = append(all, x)
		if p.all[i].Alone {
			alone = append(alone, x)
		}
	}
	return all, alone
}

// usual returns the mean work of each class before.
func (c *finding) usual(p pieces) map[uint16]float64 {
	by := map[uint16]sample{}
	for i := c.b0; i < c.b1; i++ {
		if p.all[i].Work > 0 && known(&c.rs[i]) {
			s := by[c.rs[i].Class]
			s.add(p.all[i].Work.Seconds())
			by[c.rs[i].Class] = s
		}
	}
	usual := map[uint16]float64{}
	for class, s := range by {
		if s.n >= 10 {
			usual[class] = s.mean()
		}
	}
	return usual
}

// before finds the workers of the service before: those that fit about as well, the best first. If the load did not tell, it is
// as many as were ever busy.
func (c *finding) before() (all []station.Station) {
	var found []station.Match
	for _, order := range c.orders() {
		var own []recording.Record // of this origin
		for _, i := range order {
			if i >= c.b0 && i < c.b1 {
				own = append(own, c.rs[i])
			}
		}
		whole := []station.Part{{From: 0, To: len(own)}}
		for _, sharing := range []bool{false, true} {
			found = append(found, station.Fitting(own, station.Admitted(own), whole, 0, sharing)...)
		}
	}
	slices.SortStableFunc(found, func(a, b station.Match) int { return cmp.Compare(a.Score(), b.Score()) })
	for _, m := range found {
		if m.Score() < 0.3 && m.Score() < found[0].Score()+0.1 {
			all = append(all, m.Station)
		}
	}
	if len(all) == 0 {
		most := c.peak(c.b0, c.b1)
		all = []station.Station{{Workers: most}, {Workers: most, Sharing: true}}
	}
	return all
}

// An account is an explanation by slower work, or by fewer workers.
type account struct {
	was, is pieces
	off     float64 // how far the work is from what the explanation says
	factor  float64 // how many times as long the work takes
}

// capacity tells slower work from fewer workers: for each number of workers, the work of each request follows. Of the right
// number of fewer workers, it is as it was before. Of the workers that there were before, slower work is longer, in all its
// quantiles alike.
func (c *finding) capacity() bool {
	// At its end, a queue may be worked off with the capacity of before.
	middle := c.first((c.trouble.from + c.trouble.to) / 2)
	slow, lost := account{off: math.Inf(1)}, account{off: math.Inf(1)}
	var usual map[uint16]float64
	for _, was := range c.before() {
		own := c.at(was)
		if usual == nil {
			usual = c.usual(own)
		}
		works, _ := c.relative(own, c.b0, c.b1, usual)
		if len(works) < leastPart {
			return false
		}
		normal := shapeOf(works)
		// off returns how far the work is from what it was, times a factor. Requests that found a worker free tell most.
		off := func(all, alone []float64, slower bool) (off, factor float64) {
			is := shapeOf(all)
			if slower {
				factor = is.longer(normal)
			}
			off = is.off(normal, factor)
			if len(alone) >= 5 {
				m, cv := station.Moments(alone)
				off += max(math.Abs(math.Log(m/normal.mean)-factor)-2*cv/math.Sqrt(float64(len(alone))), 0)
			}
			return off, factor
		}
		if all, alone := c.relative(own, c.a0, middle, usual); len(all) >= leastPart {
			if o, factor := off(all, alone, true); o < slow.off && factor > math.Log(1.2) {
				slow = account{own, own, o, math.Exp(factor)}
			}
		}
		for n := 1; n < was.Workers; n += 1 + n/40 {
			p := c.at(station.Station{Workers: n, Sharing: was.Sharing})
			works, _ := c.relative(p, c.b0, c.b1, usual)
			all, alone := c.relative(p, c.a0, middle, usual)
			if len(all) < leastPart || len(works) >= leastPart && shapeOf(works).off(normal, 0) < 0.05 {
				continue // so few could do what was done before
			}
			if o, _ := off(all, alone, false); o < lost.off {
				lost = account{own, p, o, 1}
			}
		}
	}
	if debug != nil {
		debug("slow %v ×%.2f off %.3f, lost %v of %v off %.3f", slow.is.Station, slow.factor, slow.off, lost.is.Station, lost.was.Station, lost.off)
	}
	const bad = 0.35 // an explanation does not hold
	if min(slow.off, lost.off) > bad {
		return false
	}
	best, cause, other := slow, Slow, LostCapacity
	if lost.off < slow.off {
		best, cause, other = lost, LostCapacity, Slow
	}
	times := make([]sample, c.fine.n)
	for i := range c.rs {
		work := max(best.is.all[i].Work, best.is.all[i].Least)
		if u := usual[c.rs[i].Class]; u > 0 && work > 0 {
			times[c.fine.span(c.came[i])].add(math.Log(work.Seconds() / u))
		}
	}
	st, ok := means(times).step(c.from, c.to)
	if !ok || st.chance > 1e-4 || st.after < st.before {
		return false
	}
	c.Cause = cause
	c.beginAt(st)
	if math.Abs(slow.off-lost.off) < 0.03 {
		c.Also = append(c.Also, other)
		c.Doubts = append(c.Doubts, fmt.Sprintf("Work that takes %.2g times as long and %d workers instead of %d explain the recording about as well.", slow.factor, lost.is.Workers, lost.was.Workers))
	}
	b, a := c.mean(best.was, c.b0, c.b1), c.mean(best.is, c.a0, c.a1)
	c.say("work of a request, without a queue", Seconds, b, a, st.chance)
	if cause == LostCapacity {
		c.say("requests at work at a time", Count, float64(best.was.Workers), float64(best.is.Workers), st.chance)
	}
	return true
}

// mean returns the mean of the known pieces of work of a part.
func (c *finding) mean(p pieces, from, to int) float64 {
	var s sample
	for i := from; i < to; i++ {
		if p.all[i].Work > 0 && known(&c.rs[i]) {
			s.add(p.all[i].Work.Seconds())
		}
	}
	return s.mean()
}

var debug func(string, ...any)

// slowAtTheEnd returns how many times as long the work of a request takes at the end of the incident as before; 0 if it is not
// known.
func (c *finding) slowAtTheEnd() float64 {
	own := c.at(c.before()[0])
	usual := c.usual(own)
	before, _ := c.relative(own, c.b0, c.b1, usual)
	after, _ := c.relative(own, c.a1-(c.a1-c.a0)/3, c.a1, usual)
	if len(before) < leastPart || len(after) < leastPart {
		return 0
	}
	return math.Exp(shapeOf(after).longer(shapeOf(before)))
}
