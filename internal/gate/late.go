package gate

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/servicetime"
)

// leaves returns when the caller of a request leaves that came at an instant; weir.Never if that
// is not known.
func (g *Gate[W]) leaves(r *Request, came time.Duration) time.Duration {
	if r.Deadline != 0 {
		return r.Deadline
	}
	if p := g.callers[g.kindOf(r)]; p != nil && p.Most() > 0 {
		return plus(came, p.Most())
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

// A kind of callers has a patience of its own: what is learnt from some refuses no others.
type kind struct {
	partition int
	priority  weir.Priority
}

func (g *Gate[W]) kindOf(r *Request) kind {
	return kind{g.partitionOf(r), min(max(r.Priority, weir.Sheddable), weir.CriticalPlus)}
}

// leaver returns what is known of the callers of requests such as r, one of which has left.
// It is nil if that teaches nothing: the Deadline told when, or it did not wait for the work.
func (g *Gate[W]) leaver(r *Request) *servicetime.Patience {
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

// least is how long a request that starts should still have: the time of the quickest work,
// or that of the usual work if it is a guess when its caller leaves.
func (g *Gate[W]) least(r *Request) time.Duration {
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
	need := plus(g.work.Wait(g.ahead(r)+float64(r.N)), g.work.Service)
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
