package incident

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/replay"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// Recommend adds to an incident the setting that serves the most in a replay. Without a replay that shows what happened, it is
// one that follows from the cause. An error is one of the context.
func (i *Incident) Recommend(ctx context.Context, f *recorded.File, seed uint64) error {
	if i.Began == nil {
		return nil
	}
	d := newData(f)
	if i.Origin != 0 {
		// Each origin has a limit of its own with auto, and requests go where there is a place.
		i.Setting = &Setting{Limit: "auto", Origin: i.Origin}
		i.Doubts = append(i.Doubts, "What the setting would have served is not known: a replay has one queue for all origins.")
		return nil
	}
	base := replay.Options{Seeds: 3, Seed: seed, Policies: []replay.Policy{{Limit: replay.Limit{Name: "auto"}}}}
	if i.Cause == RetryStorm {
		base.Without = i.repeated(d)
		base.Policies[0].Retries = 1
	}
	r, err := replay.Run(ctx, f, base)
	if err != nil {
		return err
	}
	if !r.Holds {
		i.Setting = &Setting{Limit: "auto", Class: i.Class}
		if len(r.Reasons) > 0 {
			i.Doubts = append(i.Doubts, "What the setting would have served is not known, because a replay does not show what happened. "+r.Reasons[0])
		}
		return nil
	}
	n := max(r.Station.Workers, 1)
	o := base
	o.Policies = o.Policies[:0:0]
	waits := []*time.Duration{nil}
	if p := d.patience(); p > 0 {
		waits = append(waits, new((p / 4).Round(time.Millisecond)), new((p / 2).Round(time.Millisecond)))
	}
	add := func(p replay.Policy) {
		for _, wait := range waits {
			p.MaxWait = wait
			o.Policies = append(o.Policies, p)
		}
	}
	for _, retries := range []float64{base.Policies[0].Retries, 0.1} {
		if retries == 0.1 && base.Policies[0].Retries == 0 {
			continue
		}
		if i.Class != "" {
			for _, k := range []int{max(n/8, 1), max(n/4, 1), max(n/2, 1)} {
				add(replay.Policy{Limit: replay.Limit{Name: "fixed", N: k}, Class: i.Class, Retries: retries})
			}
		}
		add(replay.Policy{Limit: replay.Limit{Name: "auto"}, Retries: retries})
		add(replay.Policy{Limit: replay.Limit{Name: "fixed", N: n}, Retries: retries})
	}
	if r, err = replay.Run(ctx, f, o); err != nil {
		return err
	}
	best := 0
	for k, out := range r.Outcomes {
		if out.Median.Served > r.Outcomes[best].Median.Served*1.005 { // the first ones are simpler
			best = k
		}
	}
	p, out := o.Policies[best], r.Outcomes[best]
	s := &Setting{Limit: replay.Limit{Name: p.Name, N: p.N}.String(), Queue: p.Queue, Class: p.Class, Replayed: true}
	if p.MaxWait != nil {
		s.MaxWait = new(p.MaxWait.Seconds())
	}
	if p.Retries > 0 && p.Retries < 1 {
		s.RetryBudget = &p.Retries
	}
	during, outside := 0.0, 0.0
	for k := range d.rs {
		switch {
		case !served(&d.rs[k]):
		case d.came[k] >= *i.Began && d.came[k] < i.end(d):
			during++
		default:
			outside++
		}
	}
	would, could := max(out.Median.Served-outside, 0), d.could(i, &r.Station, base.Without)
	could = max(could, would)
	s.Served, s.Could, s.Happened = &would, &could, &during
	i.Setting = s
	return nil
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

// patience returns how long callers wait, if that is known: as long as the least patient of them.
func (d *data) patience() time.Duration {
	var all []time.Duration
	for i := range d.rs {
		if p := recorded.Patience(&d.rs[i]); p > 0 {
			all = append(all, p)
		} else if gone(&d.rs[i]) {
			all = append(all, d.rs[i].End-recorded.Came(&d.rs[i]))
		}
	}
	if len(all) < leastPart {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/20]
}

// could returns how many of the requests of the incident the service could have served: as many as came, or as its workers had
// time for.
func (d *data) could(i *Incident, st *station.Station, without []bool) (sum float64) {
	pieces := st.Pieces(d.rs, station.Admitted(d.rs))
	const span = 2 // seconds
	end := min(i.end(d), d.length)
	rest, mean := 0.0, 0.0
	for at := *i.Began; at < end; at += span {
		length := min(span, end-at)
		came := 0.0
		var works sample
		for k := d.first(at); k < d.first(at+length); k++ {
			if without == nil || !without[k] {
				came++
			}
			if pieces[k].Work > 0 {
				works.add(pieces[k].Work.Seconds())
			}
		}
		if works.n >= 5 || mean == 0 {
			mean = works.mean()
		}
		most := math.Inf(1)
		if st.Workers > 0 && mean > 0 {
			most = float64(st.Workers) * length / mean
		}
		done := min(came+rest, most)
		rest = min(came+rest-done, done/length) // about a second of it may wait
		sum += done
	}
	return sum
}
