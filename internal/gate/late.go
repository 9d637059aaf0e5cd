package gate

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/servicetime"
)

// leaves returns when the caller of a request that came at an instant will leave, or weir.Never if that is not known.
func (g *Gate[W]) leaves(r *Request, came time.Duration) time.Duration {
	if r.Deadline != 0 {
		return r.Deadline
	}
	if p := g.callers[g.kindOf(r)]; p != nil && p.Most() > 0 {
		return servicetime.After(came, p.Most())
	}
	return weir.Never
}

// Patience returns how long callers of requests without a Deadline wait, as servicetime.Patience
// says: the least of all kinds; 0 if that is not known.
func (g *Gate[W]) Patience() (least time.Duration) {
	for _, p := range g.callers {
		if most := p.Most(); most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// A kind is the callers of one partition and priority, which share a Patience. What is learnt from callers of one kind
// refuses no requests of another.
type kind struct {
	partition int
	priority  weir.Priority
}

func (g *Gate[W]) kindOf(r *Request) kind {
	return kind{g.partitionOf(r), min(max(r.Priority, weir.Sheddable), weir.CriticalPlus)}
}

// patienceFor returns the Patience that learns when callers such as that of r leave. It is nil if
// there is nothing to learn: a Deadline says when the caller leaves, or the caller does not wait
// for the end of the work.
func (g *Gate[W]) patienceFor(r *Request) *servicetime.Patience {
	if r.Deadline != 0 || g.cfg.WaitOnly {
		return nil
	}
	k := g.kindOf(r)
	p := g.callers[k]
	if p == nil {
		if g.callers == nil {
			g.callers = map[kind]*servicetime.Patience{}
		}
		p = new(servicetime.Patience)
		g.callers[k] = p
	}
	return p
}

// leastLeft returns how much time a request must have left to start: the time of the quickest work
// if a Deadline says when its caller leaves, and the usual time of work if that is an estimate.
func (g *Gate[W]) leastLeft(r *Request) time.Duration {
	if r.Deadline != 0 {
		return g.work.Quick
	}
	return g.work.Service
}

// hopeless reports whether a request that joins now is expected to end after its caller has
// left. It is false while nothing is known.
func (g *Gate[W]) hopeless(r *Request) bool {
	at := g.leaves(r, g.now)
	switch {
	case at == weir.Never:
		return false
	case g.now >= at:
		return true
	}
	need := servicetime.After(g.work.Wait(g.ahead(r)+float64(r.N)), g.work.Service)
	return need > at-g.now
}

// ahead returns how many units are likely to leave the queue before a request that joins it
// now: all of higher priority, the fair share of other tenants, and the request's queue
// unless the newest goes first.
func (g *Gate[W]) ahead(r *Request) float64 {
	sum := 0.0
	if g.claim != nil {
		sum += float64(g.claim.req.N)
	}
	mine, owed := g.classOf(r), g.below(r.Partition)
	for _, b := range g.bands {
		own := b.partition == mine.partition
		switch {
		case b.len == 0 || mine.level().over(b.level()) || owed && !own:
		case b.level().over(mine.level()) || !own:
			sum += float64(b.units)
		default:
			sum += g.aheadInBand(b, r)
		}
	}
	return sum
}

func (g *Gate[W]) aheadInBand(b *band[W], r *Request) float64 {
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
