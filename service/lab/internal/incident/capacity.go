package incident

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/changepoint"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// works are pieces of work by class.
type works map[uint16][]float64

func (w works) all() (all []float64) {
	for _, class := range slices.Sorted(maps.Keys(w)) {
		all = append(all, w[class]...)
	}
	return all
}

// shapes returns the shape of all works, and those of the classes with enough of them.
func (w works) shapes() (s shapes) {
	all := w.all()
	s.all, s.by = station.ShapeOf(all), map[uint16]station.Shape{}
	for class, own := range w {
		if len(own) >= leastPart {
			s.by[class] = station.ShapeOf(own)
		}
	}
	return s
}

type shapes struct {
	all station.Shape
	by  map[uint16]station.Shape // class
}

// pieces are the work of all requests at a station, of which each origin has one.
type pieces struct {
	station.Station
	all []station.Piece
}

// at returns the pieces of work at a station.
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
	for _, o := range slices.Sorted(maps.Keys(by)) {
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

// counts reports whether the work of a request is known, and has ended before an instant.
func (c *finding) counts(p pieces, i int, until float64, usual map[uint16]float64) bool {
	r := &c.rs[i]
	return p.all[i].Work > 0 && usual[r.Class] > 0 && recorded.Known(r) && c.came[i]+latency(r) < until
}

// relative returns the known pieces of work of a part, as multiples of the usual work of their classes.
func (c *finding) relative(p pieces, from, to int, until float64, usual map[uint16]float64) (all, alone works) {
	all, alone = works{}, works{}
	for i := from; i < to; i++ {
		if !c.counts(p, i, until, usual) {
			continue
		}
		class := c.rs[i].Class
		x := p.all[i].Work.Seconds() / usual[class]
		all[class] = append(all[class], x)
		if p.all[i].Alone {
			alone[class] = append(alone[class], x)
		}
	}
	return all, alone
}

// usual returns the mean work of each class before.
func (c *finding) usual(p pieces) map[uint16]float64 {
	by := map[uint16]changepoint.Sample{}
	for i := c.b0; i < c.b1; i++ {
		if p.all[i].Work > 0 && recorded.Known(&c.rs[i]) {
			s := by[c.rs[i].Class]
			s.Add(p.all[i].Work.Seconds())
			by[c.rs[i].Class] = s
		}
	}
	usual := map[uint16]float64{}
	for class, s := range by {
		if s.N >= 10 {
			usual[class] = s.Mean()
		}
	}
	return usual
}

// before finds the workers of the service before: all numbers that fit about as well, the best first; none if the load did
// not tell.
func (c *finding) before() (all []station.Station) {
	var found []station.Match
	for _, order := range c.orders() {
		var own []recording.Record // of this origin
		for _, i := range order {
			if i >= max(c.b0, c.b1-enough) && i < c.b1 {
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
	return all
}

// A fit has the work of the requests at a station, before and during.
type fit struct {
	pieces
	before, during shapes
	alone          works   // during, of requests that found a worker free
	bent           float64 // by how much, as a logarithm, the work depends on the requests in flight, beyond chance
}

// fit returns the work at a station, of requests that ended before an instant; ok is false if too little is known.
func (c *finding) fit(p pieces, levels []int, until float64, usual map[uint16]float64) (f fit, ok bool) {
	f.pieces = p
	before, _ := c.relative(f.pieces, c.b0, c.b1, math.Inf(1), usual)
	during, alone := c.relative(f.pieces, c.a0, c.a1, until, usual)
	if len(before.all()) < leastPart || len(during.all()) < leastPart {
		return f, false
	}
	f.before, f.during, f.alone = before.shapes(), during.shapes(), alone
	var at []int
	for i := c.a0; i < c.a1; i++ {
		if c.counts(p, i, until, usual) {
			at = append(at, levels[i])
		}
	}
	slices.Sort(at)
	low, high := at[len(at)/3], at[len(at)*2/3]
	if low == high {
		return f, true
	}
	var few, many changepoint.Sample
	for i := c.a0; i < c.a1; i++ {
		if !c.counts(p, i, until, usual) {
			continue
		}
		switch x := f.all[i].Work.Seconds() / usual[c.rs[i].Class]; {
		case levels[i] <= low:
			few.Add(x)
		case levels[i] >= high:
			many.Add(x)
		}
	}
	if few.N >= 5 && many.N >= 5 {
		a, b := few.Mean(), many.Mean()
		f.bent = max(math.Abs(math.Log(a/b))-2*math.Sqrt(few.Variance()/(a*a)+many.Variance()/(b*b)), 0)
	}
	return f, true
}

// off returns how far the work is from what it was before at another station, with all classes factor (a logarithm) times as long.
func (f *fit) off(was *fit, factor float64) float64 {
	return f.during.all.Off(was.before.all, factor) + f.apart(was, func(uint16) float64 { return factor })
}

// slower returns how far the work is from a multiple of what it was before, and that factor as a logarithm. A dependency that is
// slow may be one of some classes alone.
func (f *fit) slower() (off, factor float64) {
	factor = f.during.all.Longer(f.before.all)
	off = f.off(f, factor)
	sum, each := 0.0, 0.0
	by := map[uint16]float64{}
	for class, s := range f.during.by {
		if was, ok := f.before.by[class]; ok {
			by[class] = s.Longer(was)
			sum, each = sum+s.N, each+s.N*s.Off(was, by[class])
		}
	}
	if len(by) < 2 {
		return off, factor
	}
	const more = 0.03 // one factor is simpler
	each = each/sum + more + f.apart(f, func(class uint16) float64 { return by[class] })
	return min(off, each), factor
}

// apart returns how far the requests are apart that should have the same work.
func (f *fit) apart(was *fit, factor func(class uint16) float64) (off float64) {
	off = f.bent
	if f.Sharing {
		off += 0.02 // a queue is simpler
	}
	var alone changepoint.Sample // requests that found a worker free tell most
	for class, own := range f.alone {
		usual := was.before.all
		if s, ok := was.before.by[class]; ok {
			usual = s
		}
		for _, x := range own {
			alone.Add(x / usual.Mean * math.Exp(-factor(class)))
		}
	}
	if alone.N >= 5 {
		off += max(math.Abs(math.Log(alone.Mean()))-2*math.Sqrt(alone.Variance())/alone.Mean(), 0)
	}
	return off
}

// An account is an explanation by slower work, or by fewer workers.
type account struct {
	was, is *fit
	off     float64 // how far the work is from what the explanation says
	factor  float64 // how many times as long the work takes
}

// accounts returns the best explanations of each kind, by the requests that ended before an instant.
func (c *finding) accounts(all []pieces, was []station.Station, levels []int, until float64, usual map[uint16]float64) (slow, lost account) {
	slow.off, lost.off = math.Inf(1), math.Inf(1)
	var fits []*fit
	for _, p := range all {
		if f, ok := c.fit(p, levels, until, usual); ok {
			fits = append(fits, &f)
		}
	}
	for _, f := range fits {
		may := f.before.all.Off(fits[len(fits)-1].before.all, 0) < 0.05 // this number could do what was done before
		if len(was) > 0 {
			may = slices.Contains(was, f.Station)
		}
		if !may {
			continue
		}
		if off, factor := f.slower(); factor > math.Log(1.2) && off < slow.off {
			slow = account{f, f, off, math.Exp(factor)}
		}
		for _, less := range fits {
			if less.Workers >= f.Workers || less.before.all.Off(f.before.all, 0) < 0.05 {
				continue
			}
			if off := less.off(f, 0); off < lost.off {
				lost = account{f, less, off, 1}
			}
		}
	}
	return slow, lost
}

// capacity tells slower work from fewer workers: for each number of workers, the work of each request follows. Of the right
// number of fewer workers, it is as it was before. Of the workers that there were before, slower work is longer, in all its
// quantiles alike.
func (c *finding) capacity() bool {
	near := c.near()
	if !near.slowOrLost() {
		return false
	}
	c.Incident = near.Incident
	c.begin(*c.Began, *c.Low, *c.High)
	return true
}

// enough is the number of requests before, and of requests during an incident, of which the work is compared.
const enough = 20_000

// near returns the finding with the requests around the beginning alone, if there are many.
func (c *finding) near() *finding {
	near := *c
	first, last := max(c.b0, c.b1-enough), min(c.a1, c.a0+enough)
	near.data = &data{c.file, c.rs[first:last], c.came[first:last], c.length}
	near.b0, near.b1, near.a0, near.a1 = 0, c.b1-first, c.a0-first, last-first
	if last < c.a1 {
		near.trouble.to = c.came[last]
	}
	return &near
}

// slowOrLost is capacity of the requests of a finding.
func (c *finding) slowOrLost() bool {
	levels := make([]int, len(c.rs))
	for _, order := range c.orders() {
		at, _ := station.AtWork(c.rs, order)
		for k, i := range order {
			levels[i] = at[k]
		}
	}
	if late, ok := c.later(); ok && late.After > late.Before { // what came before it tells nothing
		if i := c.first(float64(late.High) * c.fine.width); i > c.a0 && i < c.a0+(c.a1-c.a0)/4 {
			c.a0 = i
		}
	}
	was := c.before()
	most := c.peak(c.b0, c.b1)
	usual := c.usual(c.at(cmp.Or(first(was), station.Station{Workers: most})))
	slow, lost := account{off: math.Inf(1)}, account{off: math.Inf(1)}
	for _, sharing := range []bool{false, true} {
		var all []pieces
		for _, n := range c.numbers(most, was, sharing) {
			all = append(all, c.at(station.Station{Workers: n, Sharing: sharing}))
		}
		// Later, the cause may be over, and a queue is worked off with the capacity of before.
		for _, part := range []float64{1, 2, 4, 8} {
			s, l := c.accounts(all, was, levels, c.trouble.from+(c.trouble.to-c.trouble.from)/part, usual)
			if s.off < slow.off {
				slow = s
			}
			if l.off < lost.off {
				lost = l
			}
		}
	}
	if math.IsInf(min(slow.off, lost.off), 1) {
		return c.unseen()
	}
	const (
		bad     = 0.35 // an explanation does not hold
		similar = 0.08 // two hold about as well
	)
	if min(slow.off, lost.off) > bad {
		return false
	}
	best, cause, other := slow, Slow, LostCapacity
	if lost.off < slow.off {
		best, cause, other = lost, LostCapacity, Slow
	}
	times := make([]changepoint.Sample, c.fine.n)
	for i := range c.rs {
		p, u := &best.is.all[i], usual[c.rs[i].Class]
		if work := max(p.Work, p.Least).Seconds(); u > 0 && (p.Work > 0 || work > u) {
			times[c.fine.span(c.came[i])].Add(math.Log(max(work/u, 0.05)))
		}
	}
	st, ok := changepoint.Means(times).Onset(c.from, c.to)
	if !ok || st.Chance > 1e-4 || st.After < st.Before {
		if st, ok = c.later(); !ok {
			return false
		}
	}
	c.Cause, c.workers = cause, best.was.Workers
	c.beginAt(st)
	if math.Abs(slow.off-lost.off) < similar {
		c.Also = append(c.Also, other)
		c.Doubts = append(c.Doubts, fmt.Sprintf("Work that takes %.2g times as long and %d workers instead of %d explain the recording about as well.", slow.factor, lost.is.Workers, lost.was.Workers))
	}
	if len(c.Also) > 0 { // the work follows from the explanation, and does not show which one is right
		b, a := c.took()
		c.say("time that a request took", Seconds, b.Mean(), a.Mean(), st.Chance)
		return true
	}
	b, a := c.mean(best.was.pieces, c.b0, c.b1), c.mean(best.is.pieces, c.a0, c.a1)
	c.say("work of a request, without a queue", Seconds, b, a, st.Chance)
	if cause == LostCapacity {
		c.say("requests at work at a time", Count, float64(best.was.Workers), float64(best.is.Workers), st.Chance)
	}
	return true
}

// numbers returns the numbers of workers that are tried: up to the most, in steps of a fortieth, and the stations that were found.
func (c *finding) numbers(most int, found []station.Station, sharing bool) (all []int) {
	for n := 1; n <= most; n += 1 + n/40 {
		all = append(all, n)
	}
	for _, st := range found {
		if st.Sharing == sharing {
			all = append(all, st.Workers)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unseen is capacity if so few requests were served that their work tells nothing.
func (c *finding) unseen() bool {
	st, ok := c.later()
	if !c.trouble.lost || !ok {
		return false
	}
	c.Cause, c.Also = Slow, append(c.Also, LostCapacity)
	c.beginAt(st)
	c.Doubts = append(c.Doubts, "Too few requests ended to tell slower work from fewer workers. Record at the service or at the proxy, which see the end of the work.")
	return true
}

// took returns the times from the admission of requests to their end, before and during.
func (c *finding) took() (before, during changepoint.Sample) {
	for i := c.b0; i < c.a1; i++ {
		switch r := &c.rs[i]; {
		case !recorded.Known(r) && !recorded.Unseen(r):
		case i < c.b1:
			before.Add(response(r))
		default:
			during.Add(response(r))
		}
	}
	return before, during
}

// mean returns the mean of the known pieces of work of a part.
func (c *finding) mean(p pieces, from, to int) float64 {
	var s changepoint.Sample
	for i := from; i < to; i++ {
		if p.all[i].Work > 0 && recorded.Known(&c.rs[i]) {
			s.Add(p.all[i].Work.Seconds())
		}
	}
	return s.Mean()
}

// slowAtTheEnd returns how many times as long the work of a request takes at the end of the incident as before; 0 if it is not
// known.
func (c *finding) slowAtTheEnd() float64 {
	own := c.at(cmp.Or(first(c.before()), station.Station{Workers: c.peak(c.b0, c.b1)}))
	usual := c.usual(own)
	before, _ := c.relative(own, c.b0, c.b1, math.Inf(1), usual)
	after, _ := c.relative(own, c.a1-(c.a1-c.a0)/3, c.a1, math.Inf(1), usual)
	if len(before.all()) < leastPart || len(after.all()) < leastPart {
		return 0
	}
	return math.Exp(station.ShapeOf(after.all()).Longer(station.ShapeOf(before.all())))
}

// first returns the first station; the zero Station if there is none.
func first(all []station.Station) station.Station {
	if len(all) == 0 {
		return station.Station{}
	}
	return all[0]
}
