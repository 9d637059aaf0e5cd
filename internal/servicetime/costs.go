package servicetime

import "time"

// Costs learns how much longer the work of some routes takes than that of others. Routes have numbers
// from 1 to MaxRoutes; work without a number has its own route. A route of streams, or of long
// polls, tells nothing of the others: what takes more than costMost times the mean counts as so much.
// The zero Costs knows nothing.
type Costs struct {
	all    cost
	routes map[int]*cost
}

// MaxRoutes bounds the numbers of routes, and so the memory of Costs.
const MaxRoutes = 1<<10 - 1

type cost struct{ n, seconds float64 }

const (
	costEnough = 3       // work of a route, of which its cost is known
	costMemory = 1 << 12 // work after which all earlier work counts for half
	costMost   = 32      // times the mean
	costLeast  = 1e-3    // times the mean; it keeps work without a measurable duration from costing nothing
)

// Ended learns that work of a route took d.
func (c *Costs) Ended(route int, d time.Duration) {
	if c.routes == nil {
		c.routes = map[int]*cost{}
	}
	r := c.routes[route]
	if r == nil {
		r = new(cost)
		c.routes[route] = r
	}
	r.add(d)
	if c.all.n >= costEnough && c.all.seconds > 0 {
		d = min(d, time.Duration(costMost*c.all.seconds/c.all.n*float64(time.Second)))
	}
	if c.all.add(d); c.all.n >= costMemory {
		c.all.halve()
		for route, r := range c.routes {
			if r.halve(); r.n < 0.5 {
				delete(c.routes, route)
			}
		}
	}
}

func (c *cost) add(d time.Duration) { c.n, c.seconds = c.n+1, c.seconds+d.Seconds() }

func (c *cost) halve() { c.n, c.seconds = c.n/2, c.seconds/2 }

// Of returns how long work of a route takes, relative to all work, on average, at least costLeast; 1 if
// that is not known, or more than costMost.
func (c *Costs) Of(route int) float64 {
	if len(c.routes) <= 1 {
		return 1
	}
	r := c.routes[route]
	if r == nil || r.n < costEnough || c.all.seconds <= 0 {
		return 1
	}
	if of := r.seconds / r.n * c.all.n / c.all.seconds; of <= costMost {
		return max(of, costLeast)
	}
	return 1
}
