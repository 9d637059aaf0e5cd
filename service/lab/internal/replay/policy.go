package replay

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/heap"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// A Limit bounds the requests in flight at the service: none, auto, or a number. The rest is as in
// inflight.Config, with its defaults.
type Limit struct {
	Name    string         // none, auto or fixed
	N       int            // of fixed
	Queue   *int           // requests that may wait; nil is the default
	MaxWait *time.Duration // nil is the default
}

// UnmarshalText reads none, auto or a number.
func (l *Limit) UnmarshalText(text []byte) error {
	switch name := string(text); name {
	case "none", "auto":
		*l = Limit{Name: name}
	default:
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > 1_000_000 {
			return fmt.Errorf("%q: want none, auto, or a number of requests in flight such as 20", text)
		}
		*l = Limit{Name: "fixed", N: n}
	}
	return nil
}

// String returns what UnmarshalText reads, with the queue and the wait if they are not the defaults.
func (l Limit) String() string {
	text := l.Name
	if l.Name == "fixed" {
		text = strconv.Itoa(l.N)
	}
	if l.Queue != nil {
		text += fmt.Sprintf(", queue %d", *l.Queue)
	}
	if l.MaxWait != nil {
		text += fmt.Sprintf(", for %v", *l.MaxWait)
	}
	return text
}

// MarshalText is String.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// guard returns the shipped code for the limit; nil for none.
func (l Limit) guard() *sim.Guard {
	if l.Name == "none" {
		return nil
	}
	g := sim.Auto()
	g.Limit = sim.Limit{Name: l.Name, N: l.N}
	if l.Queue != nil {
		g.Queue = *l.Queue
	}
	if l.MaxWait != nil {
		g.MaxWait = *l.MaxWait
	}
	return g
}

// A Policy is a limit, and what callers do when they are rejected.
type Policy struct {
	Limit
	Class   string  // if not empty, the limit is for this class alone, and the others have none
	Retries float64 // at most this share of the requests is sent again; 0 is none
}

// guard returns the shipped code for the limit; nil for none.
func (p Policy) guard() *sim.Guard {
	g := p.Limit.guard()
	if g != nil && p.Class != "" {
		g.Instances = sim.Instances{{Classes: []string{p.Class}}, {Limit: &sim.Limit{Name: "none"}}}
	}
	return g
}

// String describes the policy.
func (p Policy) String() string {
	text := p.Limit.String()
	if p.Class != "" {
		text += " of " + p.Class
	}
	if p.Retries > 0 {
		text += fmt.Sprintf(", retries %.0f %%", 100*p.Retries)
	}
	return text
}

// retry returns the retries of the callers.
func (p Policy) retry() sim.Retry {
	if p.Retries == 0 {
		return sim.Retry{}
	}
	return sim.Retry{Attempts: 3, Backoff: 100 * time.Millisecond, Budget: &adaptive.BudgetConfig{Ratio: p.Retries, MinPerSecond: -1}}
}

// limited reports whether a limit turned a request away.
func limited(r *recording.Record) bool { return r.Outcome.Rejected() && r.Outcome.Reason() != 0 }

// before infers the limit that was in force, from what was in flight when requests had waited in its queue or were turned
// away. If the recording cannot tell, it returns the reason.
func before(rs []recording.Record) (l Limit, reason string) {
	var levels, queues []int
	byClass := map[uint16][]int{} // levels
	var overdue []time.Duration
	turned, waited := 0, 0
	waiting := heap.New(func(a, b time.Duration) bool { return a < b })
	for i := range rs {
		r := &rs[i]
		for waiting.Len() > 0 && waiting.Min() <= r.Intended {
			waiting.Pop()
		}
		full := recorded.AtLimit(r)
		if full {
			levels, byClass[r.Class] = append(levels, r.Inflight), append(byClass[r.Class], r.Inflight)
		}
		switch {
		case limited(r):
			turned++
			if r.Outcome.Reason() == weir.Overdue {
				overdue = append(overdue, r.Wait)
			}
			if full {
				queues = append(queues, waiting.Len())
			}
		case full:
			waited++
		}
		if r.Wait > 0 {
			waiting.Push(r.Intended + r.Wait)
		}
	}
	if turned == 0 && waited < station.Fewest {
		return Limit{Name: "none"}, ""
	}
	if waited == 0 && !slices.ContainsFunc(rs, func(r recording.Record) bool { return r.Wait > 0 }) && len(queues) < turned {
		return Limit{}, "A limit turned requests away, and the callers have recorded that, not the limit. Record at the limit, or say what it was by --recorded-limit."
	}
	l = Limit{Name: "auto"}
	if first, then, ok := changed(levels); ok {
		return Limit{}, fmt.Sprintf("The limit was changed within the recording, from %d to %d: a replay has one for all of it.", first, then)
	}
	if n, share := common(levels); share > 0.8 && n > 0 {
		l = Limit{Name: "fixed", N: n}
	} else if several(byClass) {
		return Limit{}, "Each class has a limit of its own: a replay has one for all."
	}
	if q, share := common(queues); len(queues) >= 5 && share > 0.5 {
		l.Queue = &q
	}
	slices.Sort(overdue)
	if n := len(overdue); n >= 5 && float64(overdue[n/10]) > 0.95*float64(overdue[n-1]) { // they all waited as long
		wait := overdue[n/2].Round(10 * time.Millisecond)
		if wait != inflight.DefaultMaxWait {
			l.MaxWait = &wait
		}
	}
	return l, ""
}

// several reports whether classes have different limits, each of them fixed.
func several(levels map[uint16][]int) bool {
	limits := map[int]bool{}
	for _, all := range levels {
		if len(all) < station.Fewest/3 {
			continue
		}
		n, share := common(all)
		if share < 0.8 {
			return false
		}
		limits[n] = true
	}
	return len(limits) > 1
}

// changed reports whether nearly all levels, in the order of time, are one number first, and then another one. Auto does not
// change as much at once.
func changed(levels []int) (first, then int, ok bool) {
	const least = 1.5 // the greater over the smaller one
	one, _ := common(levels)
	other, _ := common(slices.DeleteFunc(slices.Clone(levels), func(n int) bool { return n == one }))
	if float64(max(one, other)) < least*float64(min(one, other)) {
		return 0, 0, false
	}
	for _, pair := range [][2]int{{one, other}, {other, one}} {
		before, after := 0, 0 // levels that are right, if the change comes after one of them
		for _, n := range levels {
			if n == pair[1] {
				after++
			}
		}
		for _, n := range levels {
			switch n {
			case pair[0]:
				before++
			case pair[1]:
				after--
			}
			if min(before, after) >= station.Fewest/2 && float64(before+after) > 0.95*float64(len(levels)) {
				return pair[0], pair[1], true
			}
		}
	}
	return 0, 0, false
}

// common returns the most frequent number, and its share.
func common(all []int) (n int, share float64) {
	count, most := map[int]int{}, 0
	for _, x := range all {
		count[x]++
	}
	for x, k := range count {
		if k > most || k == most && x < n {
			n, most = x, k
		}
	}
	return n, float64(most) / float64(max(len(all), 1))
}

// bound returns the queue of the service itself, which turns requests away when it is full; nil if it has none.
func bound(rs []recording.Record, order []int, workers int) *int {
	turned := 0
	for i := range rs {
		if station.Refused(&rs[i]) {
			turned++
		}
	}
	if turned == 0 || workers == 0 {
		return nil
	}
	_, most := station.AtWork(rs, order)
	q := max(most-workers, 0)
	return &q
}
