package incident

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/lab/internal/changepoint"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/replay"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// Recommend adds to an incident the setting that serves the most in a replay. Without a replay that shows what happened, it is
// one that follows from the cause. It adds none if none serves more than was served. An error is one of the context.
func (i *Incident) Recommend(ctx context.Context, f *recorded.File, seed uint64) error {
	if i.Began == nil {
		return nil
	}
	d := newData(f)
	if i.Origin != 0 {
		i.Setting = d.ofOrigin(i)
		i.Doubts = append(i.Doubts, "What the setting would have served is not known: a replay has one queue for all origins.")
		return nil
	}
	var all []replay.Policy
	o := replay.Options{Workers: i.workers, Goodput: true, Seeds: 3, Seed: seed, Choose: func(st station.Station) []replay.Policy {
		all = i.policies(d, &st)
		return all
	}}
	if i.Cause == RetryStorm {
		o.Without = i.repeated(d)
	}
	r, err := replay.Run(ctx, f, o)
	if err != nil {
		return err
	}
	if !r.Holds {
		i.Setting = &Setting{Limit: "auto", Class: i.Class}
		if name, left := i.greedy(d, &r.Station); name != "" && left >= 1 {
			i.Setting = &Setting{Limit: strconv.Itoa(int(left)), Class: name}
		}
		i.Doubts = append(i.Doubts, "What the setting would have served is not known, because a replay does not show what happened. "+strings.Join(r.Reasons, " "))
		return nil
	}
	best := 0
	for k, out := range r.Outcomes {
		if out.Median.Served > r.Outcomes[best].Median.Served*1.005 { // the first ones are simpler
			best = k
		}
	}
	p, out := all[best], r.Outcomes[best]
	s := &Setting{Limit: replay.Limit{Name: p.Name, N: p.N}.String(), Queue: p.Queue, Class: p.Class, Replayed: true}
	if p.MaxWait != nil {
		s.MaxWait = new(p.MaxWait.Seconds())
	}
	if p.Retries > 0 && p.Retries < 1 {
		s.RetryBudget = &p.Retries
	}
	if was := r.Before; was.Name != "none" && r.Replayed.Median.Served >= 0.98*out.Median.Served && o.Without == nil {
		out = *r.Replayed
		s = &Setting{Limit: replay.Limit{Name: was.Name, N: was.N}.String(), Queue: was.Queue, Replayed: true, InForce: true}
		if was.MaxWait != nil {
			s.MaxWait = new(was.MaxWait.Seconds())
		}
	}
	during, outside, could := 0.0, 0.0, 0.0
	for k := range d.rs {
		within := func(i *Incident) bool { return d.came[k] >= *i.Began && d.came[k] < i.end(d) }
		switch {
		case !served(&d.rs[k]):
		case within(i), slices.ContainsFunc(i.Others, within):
			during++
		default:
			outside++
		}
	}
	for _, one := range append(i.Others, i) {
		could += d.could(one, &r.Station, o.Without)
	}
	would := max(out.Median.Served-outside, 0)
	could = max(could, would, during)
	if would <= 1.005*during && !s.InForce {
		i.Doubts = append(i.Doubts, "Of the settings that were replayed, none serves more than was served.")
		return nil
	}
	s.Served, s.Could, s.Happened = &would, &could, &during
	i.Setting = s
	return nil
}

// ofOrigin returns the setting for a bad origin: auto, by which each origin has a limit of its own and requests go where there
// is a place; none at all for an origin that fails requests for other reasons than time.
func (d *data) ofOrigin(i *Incident) *Setting {
	n, errors := 0.0, 0.0
	for k := d.first(*i.Began); k < d.first(i.end(d)); k++ {
		if r := &d.rs[k]; r.Origin == i.Origin && r.Outcome.Worked() {
			n++
			if failed(r) && !recorded.Abandoned(r) {
				errors++
			}
		}
	}
	if errors > leastFails*n {
		return &Setting{Limit: "0", Origin: i.Origin}
	}
	return &Setting{Limit: "auto", Origin: i.Origin}
}

// room is how much greater a limit is than the workers that were found. They may be more, and a few requests that wait in the
// service cost little.
const room = 1.5

// policies returns the settings that are compared, the best of some that serve about as much first: a limit with some room and a
// short wait. A heavy route has one of its own, which leaves the others alone.
func (i *Incident) policies(d *data, st *station.Station) (all []replay.Policy) {
	waits := []*time.Duration{nil}
	if short := (recorded.UsualPatience(d.rs) / 4).Round(time.Millisecond); short > 0 && short < inflight.DefaultMaxWait {
		waits = []*time.Duration{&short, nil}
	}
	budgets := []float64{0}
	if i.Cause == RetryStorm { // callers go on to repeat, or do so within a budget
		budgets = []float64{1, 0.1}
	}
	var limits []replay.Policy
	fixed := func(n float64, class string) {
		limits = append(limits, replay.Policy{Limit: replay.Limit{Name: "fixed", N: max(int(n), 1)}, Class: class})
	}
	switch class, left := i.greedy(d, st); {
	case i.Class != "":
		for _, part := range []float64{1, 0.75, 0.5} {
			fixed(part*left, i.Class)
		}
	case class != "":
		fixed(room*left, class)
		fixed(left, class)
		fallthrough
	default:
		if i.Cause != LostCapacity || len(i.Also) > 0 { // a limit of the workers of before has more than enough
			fixed(room*float64(st.Workers), "")
		}
		fixed(float64(st.Workers), "")
		limits = append(limits, replay.Policy{Limit: replay.Limit{Name: "auto"}})
	}
	for _, retries := range budgets {
		for _, p := range limits {
			for _, wait := range waits {
				p.MaxWait, p.Retries = wait, retries
				all = append(all, p)
			}
		}
	}
	return all
}

// greedy returns the class of an incident, or else the one that needs the most work during it, and the workers that the others
// leave for it. It is empty if its requests do not take much longer than those of the others.
func (i *Incident) greedy(d *data, st *station.Station) (name string, left float64) {
	type load struct {
		came float64
		work changepoint.Sample
	}
	pieces := st.Pieces(d.rs, station.Admitted(d.rs))
	from, to := d.first(*i.Began), d.first(i.end(d))
	loads := map[uint16]load{}
	for k := from; k < to; k++ {
		own := loads[d.rs[k].Class]
		own.came++
		if pieces[k].Work > 0 {
			own.work.Add(pieces[k].Work.Seconds())
		}
		loads[d.rs[k].Class] = own
	}
	length := max(min(i.end(d), d.length)-*i.Began, 1e-3)
	needs := func(class uint16) float64 { return loads[class].came * loads[class].work.Mean() / length }
	names := slices.Sorted(maps.Keys(loads))
	if len(names) < 2 {
		return "", 0
	}
	most := slices.MaxFunc(names, func(a, b uint16) int { return cmp.Compare(needs(a), needs(b)) })
	if i.Class != "" {
		most = names[max(slices.IndexFunc(names, func(class uint16) bool { return d.file.Class(class) == i.Class }), 0)]
	}
	left = float64(st.Workers)
	var others changepoint.Sample
	for _, class := range names {
		if class != most {
			left -= needs(class)
			others = others.Join(loads[class].work)
		}
	}
	if i.Class == "" && (others.N < leastPart || loads[most].work.Mean() < 3*others.Mean()) {
		return "", 0
	}
	return d.file.Class(most), left
}

// end returns the instant at which the incident was over.
func (i *Incident) end(d *data) float64 {
	if i.Ended != nil {
		return *i.Ended
	}
	return math.Inf(1)
}

// repeated tells which requests repeat others, so that the rest comes at the rate of before. Which ones is not known: they are
// spread evenly over each second.
func (i *Incident) repeated(d *data) []bool {
	from := max(*i.Began-lookback, 0)
	usual := float64(d.first(*i.Began)-d.first(from)) / max(*i.Began-from, 1e-3) // a second
	without := make([]bool, len(d.rs))
	for at := *i.Began; at < min(i.end(d), d.length); at++ {
		first, last := d.first(at), d.first(at+1)
		n := float64(last-first) / max(usual*min(1, d.length-at), 1)
		if n <= 1 {
			continue
		}
		for k, next := first, 0.0; k < last; k++ {
			if without[k] = float64(k-first) < next; !without[k] {
				next += n
			}
		}
	}
	return without
}

// could returns how many of the requests of the incident the service could have served: as many as came, or as its workers had
// time for, if the classes with the least work come first.
func (d *data) could(i *Incident, st *station.Station, without []bool) (sum float64) {
	pieces := st.Pieces(d.rs, station.Admitted(d.rs))
	const span = 2 // seconds
	end := min(i.end(d), d.length)
	rest, mean := map[uint16]float64{}, map[uint16]float64{} // that waits, and seconds of work, by class
	for at := *i.Began; at < end; at += span {
		length := min(span, end-at)
		works := map[uint16]changepoint.Sample{}
		came := maps.Clone(rest)
		for k := d.first(at); k < d.first(at+length); k++ {
			class := d.rs[k].Class
			if without == nil || !without[k] {
				came[class]++
			}
			if pieces[k].Work > 0 {
				own := works[class]
				own.Add(pieces[k].Work.Seconds())
				works[class] = own
			}
		}
		for class, own := range works {
			if own.N >= 5 || mean[class] == 0 {
				mean[class] = own.Mean()
			}
		}
		left := math.Inf(1) // seconds of work
		if st.Workers > 0 {
			left = float64(st.Workers) * length
		}
		clear(rest)
		for _, class := range slices.SortedFunc(maps.Keys(came), func(a, b uint16) int { return cmp.Or(cmp.Compare(mean[a], mean[b]), cmp.Compare(a, b)) }) {
			done := min(came[class], left/max(mean[class], 1e-9))
			left -= done * mean[class]
			rest[class] = min(came[class]-done, done/length) // about a second of it may wait
			sum += done
		}
	}
	return sum
}
