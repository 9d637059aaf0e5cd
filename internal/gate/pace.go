package gate

import (
	"math"
	"time"
)

// A pace is what a gate has learnt of how fast the work goes, to tell who
// would be too late. It learns all the time, also while it refuses: whoever
// finds room is let in without being asked for its deadline, and what leaves
// while somebody waits, or was refused to, shows how fast a queue would move.
// So no estimate can lock itself in.
type pace struct {
	service time.Duration // how long work takes that comes to its end, smoothed; 0 = not known
	quick   time.Duration // how long the quicker of it takes
	took    durations     // of the successes

	units, time float64       // left, and in what time, while there was demand; the last dozen departures count most
	since       time.Duration // of the last departure, or of the first demand after it
	demand      bool          // somebody waits, or would have
}

// ended learns from work that took d and has come to its end.
//
// A single slow one counts for twice the estimate at most, else rare slow work
// would make all the rest look late. The quick estimate goes down by half of a
// difference and up by a 64th of it: it stays near the quickest tenth, so that
// what it calls impossible is.
func (p *pace) ended(d time.Duration) {
	if d <= 0 {
		return
	}
	if p.service <= 0 {
		p.service, p.quick = d, d
		return
	}
	p.service += (min(d, 2*p.service) - p.service) / 16
	if d < p.quick {
		p.quick -= (p.quick - d) / 2
	} else {
		p.quick += (min(d, 4*p.quick) - p.quick) / 64
	}
}

// wanted says that somebody waits, or would have.
func (p *pace) wanted(now time.Duration) {
	if !p.demand {
		p.demand, p.since = true, now
	}
}

// freed learns that n units left. More says whether somebody still waits.
func (p *pace) freed(now time.Duration, n int, more bool) {
	if !p.demand || n <= 0 {
		return
	}
	const keep = 1 - 1.0/16
	p.units = p.units*keep + float64(n)
	p.time = p.time*keep + float64(now-p.since)
	p.since = now
	p.demand = more
}

// wait estimates how long it takes until n units have left; 0 = not known.
func (p *pace) wait(n float64) time.Duration {
	if p.units <= 0 {
		return 0
	}
	return time.Duration(min(n*p.time/p.units, 1<<60))
}

// within estimates how many units leave within d while the limit is used up, by
// Little's law; any number as long as nothing is known. It does not look at what
// has left lately: a moment in which the machine stood still is no slow service.
func (p *pace) within(d time.Duration, limit int) float64 {
	if p.service <= 0 {
		return math.Inf(1)
	}
	return float64(limit) * float64(d) / float64(p.service)
}

// hopeless reports whether a request that joins now, with a deadline, would
// not start before it, and end. It is not said of what nothing is known about.
func (g *Gate[W]) hopeless(r *Request) bool {
	if g.now >= r.Deadline {
		return true
	}
	need := plus(g.pace.wait(g.ahead(r)+float64(r.N)), g.pace.service)
	return need > r.Deadline-g.now
}

// late reports whether it is in vain to let w start now.
func (g *Gate[W]) late(w *waiter[W], now time.Duration) bool {
	return w.req.Deadline != 0 && (now >= w.req.Deadline || g.pace.quick > w.req.Deadline-now)
}

// ahead returns how many units are likely to leave the queue before a request
// that joins it now: all of higher priority, the fair share of other tenants,
// and those of its own queue unless the newest goes first.
func (g *Gate[W]) ahead(r *Request) float64 {
	sum := 0.0
	if g.claim != 0 {
		sum += float64(g.slots.all[g.claim].req.N)
	}
	owed := g.below(r.Partition)
	for i := range g.bands {
		b := &g.bands[i]
		own := b.partition == g.partitionOf(r)
		switch {
		case b.len == 0 || b.priority < r.Priority || owed && !own:
		case b.priority > r.Priority || !own:
			sum += float64(b.units)
		default:
			sum += g.aheadInBand(b, r)
		}
	}
	return sum
}

func (g *Gate[W]) aheadInBand(b *band, r *Request) float64 {
	mine := g.deal(b, r.Tenant)
	q := &b.queues[mine]
	own := float64(q.units)
	if q.len > 0 && g.newestFirst(q, g.now) {
		own = 0
	}
	sum := own
	for _, i := range b.active {
		if i != mine {
			sum += min(float64(b.queues[i].units), (own+float64(r.N))/float64(max(r.Weight, 1)))
		}
	}
	return sum
}
