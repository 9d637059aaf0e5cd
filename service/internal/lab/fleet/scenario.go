package fleet

import (
	"time"

	"github.com/weir-go/weir/service/internal/lab/dist"
)

// A Scenario describes a fleet of leaves that share limits. The zero value of a field means
// its absence, if its comment says nothing else.
type Scenario struct {
	Name     string        `yaml:"name"`
	Duration time.Duration `yaml:"duration"`
	// Warmup is a time at the beginning, which use and fairness do not include. Overshoot
	// does.
	Warmup time.Duration `yaml:"warmup"`
	Step   time.Duration `yaml:"step"` // of the series; if zero, a 200th of Duration
	Seed   uint64        `yaml:"seed"`

	Fleet   Fleet    `yaml:"fleet"`
	Keys    []Key    `yaml:"keys"`
	Demand  []Demand `yaml:"demand"`
	Network Network  `yaml:"network"`
	Faults  []Fault  `yaml:"faults"`
}

// A Fleet describes the leaves and what decides in them.
type Fleet struct {
	Leaves int    `yaml:"leaves"` // 1 to 100,000
	Policy string `yaml:"policy"` // one of Policies; if empty, "leaf"
	// TTL is the time to live of assignments; if zero, 10 s.
	TTL time.Duration `yaml:"ttl"`
	// Away says what a leaf does once its assignments have ended: "deny" (also if empty),
	// "allow" or "share".
	Away string `yaml:"away"`
	// Unassigned says what a leaf does with a key without an assignment: "ask" (also if
	// empty), "deny" or "share".
	Unassigned string `yaml:"unassigned"`
	// Watch are leaves, by their numbers from 0, of which the series has the use of the
	// first key.
	Watch []int `yaml:"watch"`
}

// A Key is a key with a limit, or several of them.
type Key struct {
	Name  string `yaml:"name"`
	Count int    `yaml:"count"` // of keys: NAME-0, NAME-1 and so on; if zero, one of this name
	Rate  int    `yaml:"rate"`  // the limit, in tokens a second, of each
	Burst int    `yaml:"burst"` // tokens, of each
}

// A Demand is a stream of requests of one token each.
type Demand struct {
	Name string  `yaml:"name"`
	Key  string  `yaml:"key"`  // the name in Keys; if empty, the first
	Rate float64 `yaml:"rate"` // requests a second, of all leaves and keys together
	// Arrivals are "poisson" (also if empty) or "even".
	Arrivals string `yaml:"arrivals"`
	// LeafSkew and KeySkew are exponents of Zipf's law: the i-th leaf, from 1, has a part
	// in proportion to i^-LeafSkew. With 0, all have the same.
	LeafSkew float64 `yaml:"leaf_skew"`
	KeySkew  float64 `yaml:"key_skew"`
	Group    `yaml:",inline"`
	// From and Until bound it; if Until is zero, the end does.
	From  time.Duration `yaml:"from"`
	Until time.Duration `yaml:"until"`
	// On and Off alternate from From on, for all leaves together, unless both are zero.
	On      time.Duration `yaml:"on"`
	Off     time.Duration `yaml:"off"`
	Changes []Change      `yaml:"changes"`
}

// A Change multiplies a demand from an instant on.
type Change struct {
	At     time.Duration `yaml:"at"`
	Factor float64       `yaml:"factor"` // of the rate at the beginning
	Group  `yaml:",inline"`
}

// A Group selects leaves: First, First+Every, First+2·Every and so on.
type Group struct {
	First  int `yaml:"first"`
	Leaves int `yaml:"leaves"` // their number; if zero, all up to the last
	Every  int `yaml:"every"`  // if zero, 1
}

// A Network carries exchanges.
type Network struct {
	Delay dist.ServiceTime `yaml:"delay"` // one way
	Loss  float64          `yaml:"loss"`  // part of the messages in each direction
	// Timeout is how long a leaf waits for an answer; if zero, 1 s.
	Timeout time.Duration `yaml:"timeout"`
}

// Kinds of a Fault.
const (
	Partition = "partition" // leaves cannot reach the upstream, for For
	Upstream  = "upstream"  // the upstream is down for For, and loses its state
	Restart   = "restart"   // leaves are down for For, and lose their state
	Stop      = "stop"      // leaves end
	Start     = "start"     // leaves do not run before At
)

// A Fault is an event in the fleet.
type Fault struct {
	Name string        `yaml:"name"` // for figures; if empty, the kind
	Kind string        `yaml:"kind"`
	At   time.Duration `yaml:"at"`
	For  time.Duration `yaml:"for"`
	// Over spreads the instants of the leaves evenly over a time from At on.
	Over time.Duration `yaml:"over"`
	// Graceful leaves give their assignments back before they stop.
	Graceful bool `yaml:"graceful"`
	Group    `yaml:",inline"`
}

// maxLeaves bounds the leaves of a fleet.
const maxLeaves = 100_000

// each calls f for the leaves of the group, out of n leaves, with their number in the group.
func (g Group) each(n int, f func(leaf, i, of int)) {
	every := max(g.Every, 1)
	count := max((n-g.First+every-1)/every, 0)
	if g.Leaves > 0 {
		count = min(count, g.Leaves)
	}
	for i := range count {
		f(g.First+i*every, i, count)
	}
}

// end returns the end of a fault.
func (f *Fault) end() time.Duration { return f.At + f.Over + f.For }

// until returns the end of a demand.
func (d *Demand) until() time.Duration {
	if d.Until == 0 {
		return never
	}
	return d.Until
}
