package incident

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-go/weir/service/lab/internal/changepoint"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// What makes an origin a bad one.
const (
	leastFails  = 0.1  // more of its requests fail
	leastSlower = 0.34 // its requests take 1.4 times as long, as a logarithm
)

// An origin has what it did before and during the incident.
type origin struct {
	name  uint8
	n     [2]float64            // requests
	bad   [2]float64            // that failed, or not in time
	times [2]changepoint.Sample // seconds
	logs  [2]changepoint.Sample // their logarithms
}

// origins returns the numbers of the origins, if there are several.
func (d *data) origins() (all []uint8) {
	var seen [256]bool
	for i := range d.rs {
		seen[d.rs[i].Origin] = true
	}
	for n := 1; n < len(seen); n++ {
		if seen[n] {
			all = append(all, uint8(n))
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// byOrigin returns the origins with enough requests, if there are several.
func (c *finding) byOrigin() (all []*origin) {
	for _, name := range c.origins() {
		o := &origin{name: name}
		for i := c.b0; i < c.a1; i++ {
			r, k := &c.rs[i], 0
			if r.Origin != name || !r.Outcome.Worked() {
				continue
			}
			if i >= c.b1 {
				k = 1
			}
			o.n[k]++
			if failed(r) {
				o.bad[k]++
			}
			if recorded.Known(r) || recorded.Unseen(r) {
				o.times[k].Add(response(r))
				o.logs[k].Add(math.Log(response(r)))
			}
		}
		if o.n[0] >= leastPart || o.n[1] >= leastPart {
			all = append(all, o)
		}
	}
	return all
}

// fails returns how many more of the requests fail.
func (o *origin) fails() float64 {
	if min(o.n[0], o.n[1]) < 5 {
		return 0
	}
	return o.bad[1]/o.n[1] - o.bad[0]/o.n[0]
}

// slower returns how much longer requests take, as a logarithm.
func (o *origin) slower() float64 {
	if min(o.logs[0].N, o.logs[1].N) < 5 {
		return 0
	}
	return o.logs[1].Mean() - o.logs[0].Mean()
}

// alone returns the origin with the most of an effect, if it is at least a size and the others have less than half of it.
func alone(all []*origin, effect func(*origin) float64, least float64) *origin {
	worst := slices.MaxFunc(all, func(a, b *origin) int { return cmp.Compare(effect(a), effect(b)) })
	for _, o := range all {
		if o != worst && effect(o) > effect(worst)/2 {
			return nil
		}
	}
	if effect(worst) < least {
		return nil
	}
	return worst
}

// badOrigin looks for one origin of several that fails or is slow, while the others are as before, or that gets no requests any
// more.
func (c *finding) badOrigin() bool {
	all := c.byOrigin()
	if len(all) < 2 {
		return false
	}
	if c.originGone(all) {
		return true
	}
	worst := alone(all, (*origin).fails, leastFails)
	if worst == nil {
		worst = alone(all, (*origin).slower, leastSlower)
	}
	if worst == nil {
		return false
	}
	own := func(i int) bool { return c.rs[i].Origin == worst.name && c.rs[i].Outcome.Worked() }
	times := make([]changepoint.Sample, c.fine.n)
	for i := range c.rs {
		if r := &c.rs[i]; own(i) && (recorded.Known(r) || recorded.Unseen(r)) {
			times[c.fine.span(c.came[i])].Add(math.Log(response(r)))
		}
	}
	// A slow origin fails when callers have no more patience: the earlier change is the beginning.
	fails := c.rate(func(i int) bool { return own(i) && failed(&c.rs[i]) })
	first, found := changepoint.Step{}, false
	changed := []*changepoint.Series{changepoint.Shares(fails, c.rate(own))}
	if worst.slower() >= leastSlower {
		changed = append(changed, changepoint.Means(times))
	}
	for _, s := range changed {
		if st, ok := s.Onset(c.from, c.to); ok && st.After > st.Before && st.Chance < 1e-4 && (!found || st.At < first.At) {
			first, found = st, true
		}
	}
	if !found {
		return false
	}
	c.Cause, c.Origin = BadOrigin, worst.name
	c.beginAt(first)
	rest := &origin{}
	for _, o := range all {
		if o != worst {
			for k := range 2 {
				rest.n[k], rest.bad[k] = rest.n[k]+o.n[k], rest.bad[k]+o.bad[k]
				rest.times[k] = rest.times[k].Join(o.times[k])
			}
		}
	}
	c.say("requests that this origin failed", Share, worst.bad[0]/max(worst.n[0], 1), worst.bad[1]/max(worst.n[1], 1), first.Chance)
	c.say("requests that the others failed", Share, rest.bad[0]/max(rest.n[0], 1), rest.bad[1]/max(rest.n[1], 1), 1)
	c.say("time that this origin took", Seconds, worst.times[0].Mean(), worst.times[1].Mean(), chanceOf(worst.times[0], worst.times[1]))
	c.say("time that the others took", Seconds, rest.times[0].Mean(), rest.times[1].Mean(), chanceOf(rest.times[0], rest.times[1]))
	return true
}

// originGone looks for an origin that gets few requests any more, for a reason that does not show.
func (c *finding) originGone(all []*origin) bool {
	sum := [2]float64{}
	for _, o := range all {
		sum[0], sum[1] = sum[0]+o.n[0], sum[1]+o.n[1]
	}
	for _, o := range all {
		before, after := o.n[0]/max(sum[0], 1), o.n[1]/max(sum[1], 1)
		if o.n[0] < leastPart || after > 0.2*before || o.fails() > leastFails || o.slower() > leastSlower {
			continue
		}
		own := c.rate(func(i int) bool { return c.rs[i].Origin == o.name })
		st, ok := changepoint.Shares(own, c.rate(func(i int) bool { return c.rs[i].Origin != 0 })).Onset(c.from, c.to)
		if !ok || st.Chance > 1e-4 || st.After > st.Before {
			continue
		}
		c.Cause, c.Origin, c.Also = LostCapacity, o.name, []Cause{BadOrigin}
		c.beginAt(st)
		c.say("requests that this origin got", Share, before, after, st.Chance)
		return true
	}
	return false
}
