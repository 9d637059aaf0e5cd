package incident

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/changepoint"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// least is the number of requests that a recording needs, and each of its two parts.
const (
	least     = 200
	leastPart = 30
)

// A finding is an Incident in the making.
type finding struct {
	*data
	Incident
	trouble
	fine     grid
	from, to int // fine spans in which a beginning is looked for
	b0, b1   int // requests before
	a0, a1   int // requests during
}

// Find finds out what happened in a recording. It describes the worst incident, which has the others.
func Find(f *recorded.File) *Incident {
	d := newData(f)
	worst := d.find()
	if worst.Began == nil {
		return worst
	}
	before := d.incidents(0, d.first(*worst.Began), levels)
	if n := len(before); n > 0 { // the time of another incident is not what to compare with
		if again := d.worst(d.first(*before[n-1].Ended), len(d.rs)); again.Began != nil && *again.Began < worst.end(d) {
			worst = again
		}
	}
	worst.Others = append(before, d.incidents(d.first(worst.end(d)), len(d.rs), levels)...)
	return worst
}

// levels bounds the others: three before the worst incident, and three after it.
const levels = 2

// incidents returns those of the requests from an index to another of which it shows that requests were not served, in the order of
// time: the worst one, one before it and one after it, and so on for some levels.
func (d *data) incidents(from, to, levels int) []*Incident {
	if levels == 0 {
		return nil
	}
	worst := d.worst(from, to)
	if worst.Began == nil || !worst.costs() {
		return nil
	}
	began, ended := d.first(*worst.Began), min(d.first(worst.end(d)), to)
	if worst.Ended == nil && to < len(d.rs) {
		worst.Ended = new(d.came[to])
	}
	return slices.Concat(d.incidents(from, began, levels-1), []*Incident{worst}, d.incidents(ended, to, levels-1))
}

// worst is find of the requests from an index to another.
func (d *data) worst(from, to int) *Incident {
	i := d.part(from, to).find()
	for _, at := range []*float64{i.Began, i.Low, i.High, i.Ended} {
		if at != nil {
			*at += d.came[from]
		}
	}
	return i
}

// costs reports whether more requests were not served than before, beyond chance.
func (i *Incident) costs() bool {
	lost := i.Evidence[len(i.Evidence)-1]
	return lost.After > lost.Before+lostMore && lost.Chance < 1e-6
}

// find finds out what happened, and describes the worst incident.
func (d *data) find() *Incident {
	c := &finding{data: d, Incident: Incident{Cause: None, Also: []Cause{}, Evidence: []Evidence{}, Doubts: []string{}}}
	if len(c.rs) < least {
		c.Doubts = append(c.Doubts, "There are too few requests to tell what happened.")
		return &c.Incident
	}
	worst, ok := c.data.trouble(func(*recording.Record) bool { return true })
	for _, name := range c.origins() {
		if t, found := c.data.trouble(func(r *recording.Record) bool { return r.Origin == name }); found && !ok {
			worst, ok = t, true
		}
	}
	if !ok {
		c.steady()
		return &c.Incident
	}
	c.trouble, c.fine = worst, c.data.fine()
	c.from, c.to = c.fine.span(max(c.trouble.before, c.trouble.from-lookback/2)), c.fine.span(min(c.trouble.to, c.trouble.from+lookback/4))+1
	c.parts(c.trouble.from)
	if c.b1-c.b0 < leastPart || c.a1-c.a0 < leastPart {
		c.Doubts = append(c.Doubts, "There are too few requests before, or after, a change for the worse.")
		return &c.Incident
	}
	for _, find := range []func() bool{c.badOrigin, c.heavyRoute, c.arrivals, c.capacity} {
		if find() {
			c.finish()
			return &c.Incident
		}
	}
	if c.trouble.lost {
		c.Cause = Unknown
		c.begin(c.trouble.from, c.trouble.from-c.data.coarse().width, c.trouble.from+c.data.coarse().width)
		c.finish()
	}
	return &c.Incident
}

// steady says if much was not served all the time: there is nothing to compare it with.
func (c *finding) steady() {
	lost := 0.0
	for i := range c.rs {
		if !served(&c.rs[i]) {
			lost++
		}
	}
	if share := lost / float64(len(c.rs)); share > lostMore {
		c.Doubts = append(c.Doubts, fmt.Sprintf("From the beginning of the recording on, requests were not served: %.0f %% of all. A recording that begins earlier tells what happened.", 100*share))
	}
}

// parts sets the requests before and during the incident, if it began at an instant.
func (c *finding) parts(began float64) {
	c.b0, c.b1 = c.first(c.trouble.before), c.first(began)
	c.a0, c.a1 = c.b1, c.first(c.trouble.to)
}

// begin sets when it began.
func (c *finding) begin(at, low, high float64) {
	c.Began, c.Low, c.High = &at, &low, &high
	if c.trouble.to < c.length-c.data.coarse().width {
		to := c.trouble.to
		c.Ended = &to
	}
}

// beginAt sets the beginning from a step of a series of the fine grid.
func (c *finding) beginAt(st changepoint.Step) {
	w := c.fine.width
	c.begin(float64(st.At)*w, float64(st.Low)*w, float64(st.High)*w)
}

// rate is a number of requests by the fine grid.
func (c *finding) rate(count func(i int) bool) []float64 {
	ns := make([]float64, c.fine.n)
	for i := range c.rs {
		if count(i) {
			ns[c.fine.span(c.came[i])]++
		}
	}
	return ns
}

// say adds evidence.
func (c *finding) say(what string, unit Unit, before, after, chance float64) {
	c.Evidence = append(c.Evidence, Evidence{what, unit, before, after, chance})
}

// perSecond returns the requests a second for which count holds, before and during.
func (c *finding) perSecond(count func(i int) bool) (before, after float64) {
	for i := c.b0; i < c.a1; i++ {
		if !count(i) {
			continue
		}
		if i < c.b1 {
			before++
		} else {
			after++
		}
	}
	return before / max(c.trouble.from-c.trouble.before, 1e-3), after / max(c.trouble.to-c.trouble.from, 1e-3)
}

// finish adds what all incidents have.
func (c *finding) finish() {
	if c.workers == 0 && c.Cause != HeavyRoute { // which shows them better than the time before
		c.workers = first(c.before()).Workers
	}
	at := c.data.at(*c.Began)
	c.At = &at
	c.trouble.from = *c.Began
	c.parts(*c.Began)
	g := c.fine
	good, all := c.rate(func(i int) bool { return served(&c.rs[i]) }), c.rate(func(int) bool { return true })
	lost := make([]float64, g.n)
	for k := range all {
		lost[k] = all[k] - good[k]
	}
	from, began, to := c.edges()
	add := func(what string, unit Unit, s *changepoint.Series, before, after float64) {
		c.say(what, unit, before, after, s.Chance(from, began, to))
	}
	before, after := c.perSecond(func(int) bool { return true })
	add("requests that came", PerSecond, changepoint.Counts(all), before, after)
	b, a := c.perSecond(func(i int) bool { return served(&c.rs[i]) })
	add("requests that were served", PerSecond, changepoint.Counts(good), b, a)
	add("requests that were not served", Share, changepoint.Shares(lost, all), 1-b/max(before, 1e-9), 1-a/max(after, 1e-9))
}

// heavyRoute looks for a class that appears or grows, with work that is much more than that of the others.
func (c *finding) heavyRoute() bool {
	type class struct{ before, after, timeBefore, timeAfter changepoint.Sample }
	classes := map[uint16]*class{}
	for i := c.b0; i < c.a1; i++ {
		r := &c.rs[i]
		k := classes[r.Class]
		if k == nil {
			k = &class{}
			classes[r.Class] = k
		}
		n, t := &k.before, &k.timeBefore
		if i >= c.b1 {
			n, t = &k.after, &k.timeAfter
		}
		n.N++
		if recorded.Known(r) || recorded.Unseen(r) {
			t.Add(response(r))
		}
	}
	if len(classes) < 2 {
		return false
	}
	lengthBefore, lengthAfter := max(c.trouble.from-c.trouble.before, 1e-3), max(c.trouble.to-c.trouble.from, 1e-3)
	names := slices.Sorted(maps.Keys(classes))
	var total changepoint.Sample // of all classes before
	for _, name := range names {
		total = total.Join(classes[name].timeBefore)
	}
	usual := total.Mean()
	for _, name := range names {
		k := classes[name]
		rateBefore, rateAfter := k.before.N/lengthBefore, k.after.N/lengthAfter
		var others changepoint.Sample // during
		rest, restBefore := 0.0, 0.0
		for _, other := range names {
			if o := classes[other]; other != name {
				others = others.Join(o.timeAfter)
				rest, restBefore = rest+o.after.N/lengthAfter, restBefore+o.before.N/lengthBefore
			}
		}
		if k.after.N < 5 || rateAfter < 2*rateBefore*max(rest/max(restBefore, 1e-9), 1) || others.N < 5 || usual == 0 {
			continue
		}
		// In a queue for all, the others wait as long: the difference is work.
		weight := max(k.timeAfter.Mean()-others.Mean(), c.firstOf(name)) + usual
		if k.timeBefore.N >= leastPart {
			weight = max(weight, k.timeBefore.Mean())
		}
		more := (rateAfter - rateBefore) * weight
		if weight < 3*usual || more < 0.2*total.Sum/lengthBefore || more < (rest-restBefore)*usual {
			continue
		}
		st, ok := changepoint.Counts(c.rate(func(i int) bool { return c.rs[i].Class == name })).Onset(c.from, c.to)
		if !ok || st.Chance > 1e-4 || st.After < st.Before {
			continue
		}
		c.Cause, c.Class = HeavyRoute, c.file.Class(name)
		c.beginAt(st)
		c.say("requests of this class", PerSecond, rateBefore, rateAfter, st.Chance)
		c.say("work of one of them, beside the others", Seconds, usual, weight, chanceOf(k.timeAfter, others))
		return true
	}
	return false
}

// firstOf returns how much longer the first requests of a class took than the others meanwhile, while there was little of a
// queue.
func (c *finding) firstOf(class uint16) float64 {
	const few = 20
	var own, others changepoint.Sample
	for i := c.a0; i < c.a1 && own.N < few; i++ {
		r := &c.rs[i]
		if !recorded.Known(r) && !recorded.Unseen(r) {
			continue
		}
		if r.Class == class {
			own.Add(response(r))
		} else {
			others.Add(response(r))
		}
	}
	if own.N < 5 || others.N < 5 {
		return 0
	}
	return own.Mean() - others.Mean()
}

// chanceOf returns the probability that two means differ as much by chance.
func chanceOf(a, b changepoint.Sample) float64 {
	if v := a.Variance() + b.Variance(); !math.IsInf(v, 0) && v > 0 {
		z := math.Abs(a.Mean()-b.Mean()) / math.Sqrt(v)
		return math.Erfc(z / math.Sqrt2)
	}
	return 1
}

// wasted adds the share of the work that was done for callers that had left.
func (c *finding) wasted() {
	var all, lost [2]float64
	for i := c.b0; i < c.a1; i++ {
		r, k := &c.rs[i], 0
		if i >= c.b1 {
			k = 1
		}
		if r.Outcome.Worked() {
			all[k] += response(r)
			if recorded.Abandoned(r) {
				lost[k] += response(r)
			}
		}
	}
	worked := c.rate(func(i int) bool { return c.rs[i].Outcome.Worked() })
	left := c.rate(func(i int) bool { return c.rs[i].Outcome.Worked() && recorded.Abandoned(&c.rs[i]) })
	from, at, to := c.edges()
	if before, after := lost[0]/max(all[0], 1e-9), lost[1]/max(all[1], 1e-9); after > before {
		c.say("work for callers that had left", Share, before, after, changepoint.Shares(left, worked).Chance(from, at, to))
	}
}

// edges returns the fine spans in which the time before begins, the incident begins, and it ends.
func (c *finding) edges() (from, at, to int) {
	g := c.fine
	return g.span(c.trouble.before), g.span(*c.Began), max(g.span(c.trouble.to), g.span(*c.Began)+1)
}

// later returns when requests began to take longer.
func (c *finding) later() (st changepoint.Step, ok bool) {
	times := make([]changepoint.Sample, c.fine.n)
	for i := range c.rs {
		if r := &c.rs[i]; recorded.Known(r) || recorded.Unseen(r) {
			times[c.fine.span(c.came[i])].Add(math.Log(latency(r)))
		}
	}
	return changepoint.Means(times).Onset(c.from, c.to)
}

// arrivals looks for more requests: of more callers, or of callers that repeat.
func (c *finding) arrivals() bool {
	st, ok := changepoint.Counts(c.rate(func(int) bool { return true })).Onset(c.from, c.to)
	if !ok || st.Chance > 1e-6 || st.After < 1.15*st.Before {
		return false
	}
	slow := c.slowAtTheEnd()
	storm := c.repeats(st)
	// A rise comes before the failures that it makes. Repeats come after failures.
	if late, ok := c.later(); ok && storm.share > 0 && late.After > late.Before && late.Chance < 1e-4 {
		failures := c.failures()
		from, _ := slices.BinarySearch(failures, float64(late.At)*c.fine.width)
		to, _ := slices.BinarySearch(failures, float64(st.High)*c.fine.width)
		storm.better = storm.better && late.At == st.At || late.At < st.At && to-from >= 5
		storm.equal = late.High > st.Low && st.High > late.Low
	}
	if storm.better && slow >= 1.3 && c.capacity() { // the work is slow, and callers repeat besides
		c.Also = append(c.Also, RetryStorm)
		return true
	}
	if storm.better {
		c.Cause = RetryStorm
		c.beginAt(st)
		if late, ok := c.later(); ok && late.At < st.At { // what made the first requests fail
			c.beginAt(late)
		}
		c.say("requests that repeat one that was not served", Share, 0, storm.share, st.Chance)
		c.wasted()
		if storm.equal {
			c.Also = append(c.Also, Demand)
		}
		return true
	}
	// More requests are an incident if they are more than the service can do.
	if !c.trouble.lost && c.trouble.longer < math.Log(1.5) {
		return false
	}
	if c.doesLess() && c.capacity() {
		return true
	}
	c.Cause = Demand
	c.beginAt(st)
	if storm.equal {
		c.Also = append(c.Also, RetryStorm)
	}
	return true
}

// doesLess reports whether the service did less a second during the incident than before, in terms of what each class took
// before. More requests alone do not make that so.
func (c *finding) doesLess() bool {
	usual := map[uint16]changepoint.Sample{}
	for i := c.b0; i < c.b1; i++ {
		if r := &c.rs[i]; recorded.Known(r) {
			own := usual[r.Class]
			own.Add(response(r))
			usual[r.Class] = own
		}
	}
	before, during, unseen := 0.0, 0.0, 0
	for i := c.b0; i < c.a1; i++ {
		r := &c.rs[i]
		end := c.came[i] + latency(r)
		switch {
		case recorded.Unseen(r):
			unseen++
		case !recorded.Known(r) || end >= c.trouble.to:
		case end < c.trouble.from:
			before += usual[r.Class].Mean()
		default:
			during += usual[r.Class].Mean()
		}
	}
	if 20*unseen > c.a1-c.b0 {
		return false
	}
	return during/max(c.trouble.to-c.trouble.from, 1e-3) < 0.85*before/max(c.trouble.from-c.trouble.before, 1e-3)
}
