package fleet

import (
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
)

// A Scenario describes a fleet of leaves that share limits. The zero value of a field means
// its absence, if its comment says nothing else.
type Scenario struct {
	Name     string        `yaml:"name" example:"A fleet" required:"true" help:"Names the scenario in tables and plots."`
	Duration time.Duration `yaml:"duration" example:"1m" required:"true" help:"Virtual time of a run, at least 10ms."`
	Warmup   time.Duration `yaml:"warmup" default:"0s" example:"10s" help:"The beginning, which use and fairness do not include. Overshoot does."`
	Step     time.Duration `yaml:"step" default:"a 200th of the duration" example:"1s" help:"Time between the points of a plot."`
	Seed     uint64        `yaml:"seed" default:"0" example:"7" help:"Seed of the random numbers. The same file and seed give the same results."`

	Fleet   Fleet    `yaml:"fleet" example:"{leaves: 100}" required:"true" help:"The leaves, and how they decide. It makes the file one of a fleet."`
	Keys    []Key    `yaml:"keys" required:"true" help:"The keys with a limit that the leaves share."`
	Demand  []Demand `yaml:"demand" required:"true" help:"The streams of requests: 1 to 1000."`
	Network Network  `yaml:"network" default:"no delay, no loss" example:"{delay: 5ms, loss: 0.01}" help:"What carries messages between a leaf and the upstream."`
	Faults  []Fault  `yaml:"faults" help:"Events: at most 1000."`
}

// A Fleet describes the leaves and what decides in them.
type Fleet struct {
	Leaves     int           `yaml:"leaves" example:"100" required:"true" help:"Number of leaves, 1 to 100000."`
	Policy     string        `yaml:"policy" enum:"leaf,exact,static,optimistic,doorman,ideal" default:"leaf" example:"exact" help:"What decides: leaf is weir serve --upstream; exact asks about each request; static divides each limit evenly; optimistic and doorman are other algorithms, for comparison; ideal knows all demands at once."`
	TTL        time.Duration `yaml:"ttl" default:"10s" example:"30s" help:"How long an assignment lasts without another exchange, at least 1s."`
	Away       string        `yaml:"away" enum:"deny,allow,share" default:"deny" example:"share" help:"What a leaf does when its assignments have ended."`
	Unassigned string        `yaml:"unassigned" enum:"ask,deny,share" default:"ask" example:"share" help:"What a leaf does with a key without an assignment."`
	Watch      []int         `yaml:"watch" default:"none" example:"[0, 3]" help:"Leaves, by their numbers from 0, with a line of their own in the plot: at most 16."`
}

// A Key is a key with a limit, or several of them.
type Key struct {
	Name  string `yaml:"name" example:"api" required:"true" help:"Letters and digits."`
	Count int    `yaml:"count" default:"one key of this name" example:"100" help:"Number of keys, NAME-0, NAME-1 and so on, each with this limit."`
	Rate  int    `yaml:"rate" example:"1000" required:"true" help:"Limit of each key, in tokens a second."`
	Burst int    `yaml:"burst" example:"100" required:"true" help:"Tokens that a key may take at once."`
}

// A Demand is a stream of requests of one token each.
type Demand struct {
	Name     string  `yaml:"name" default:"none" example:"users" help:"Names the stream in variants."`
	Key      string  `yaml:"key" default:"the first" example:"api" help:"Name of its keys."`
	Rate     float64 `yaml:"rate" required:"true" example:"5000" help:"Requests a second, of all leaves and keys together, > 0. Each takes one token."`
	Arrivals string  `yaml:"arrivals" enum:"poisson,even" default:"poisson" example:"even" help:"Arrivals: at random, or evenly spaced."`
	LeafSkew float64 `yaml:"leaf_skew" default:"0: all the same" example:"0.8" help:"Exponent of Zipf's law: the i-th leaf, from 1, has a part in proportion to i^-leaf_skew."`
	KeySkew  float64 `yaml:"key_skew" default:"0: all the same" example:"1" help:"The same for keys."`
	Group    `yaml:",inline"`
	From     time.Duration `yaml:"from" default:"0s" example:"10s" help:"Beginning."`
	Until    time.Duration `yaml:"until" default:"end of the run" example:"40s" help:"End."`
	On       time.Duration `yaml:"on" default:"always" example:"5s" help:"The stream alternates from its beginning on: this long it sends."`
	Off      time.Duration `yaml:"off" default:"never" example:"5s" help:"And this long it does not."`
	Changes  []Change      `yaml:"changes" help:"Changes of the rate, in the order of time: at most 1000."`
}

// A Change multiplies a demand from an instant on.
type Change struct {
	At     time.Duration `yaml:"at" default:"0s" example:"30s" help:"Instant of the change."`
	Factor float64       `yaml:"factor" default:"0" example:"15" help:"Factor of the rate at the beginning."`
	Group  `yaml:",inline"`
}

// A Group selects leaves: First, First+Every, First+2·Every and so on.
type Group struct {
	First  int `yaml:"first" default:"0" example:"3" help:"Which leaves: the first one, by its number from 0."`
	Leaves int `yaml:"leaves" default:"0: up to the last" example:"10" help:"Which leaves: their number."`
	Every  int `yaml:"every" default:"1" example:"2" help:"Which leaves: each, or every second, third and so on."`
}

// A Network carries exchanges.
type Network struct {
	Delay   dist.ServiceTime `yaml:"delay" default:"0s" example:"{mean: 5ms, distribution: lognormal, cv: 1}" help:"Delay of a message, one way."`
	Loss    float64          `yaml:"loss" default:"0" example:"0.01" help:"Share of the messages that are lost in each direction, below 1."`
	Timeout time.Duration    `yaml:"timeout" default:"1s" example:"500ms" help:"How long a leaf waits for an answer."`
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
	Name     string        `yaml:"name" default:"its kind" example:"outage" help:"Names the event in plots."`
	Kind     string        `yaml:"kind" enum:"partition,upstream,restart,stop,start" example:"restart" required:"true" help:"partition: leaves cannot reach the upstream. upstream: it is down, and loses its state. restart: leaves are down, and lose theirs. stop: leaves end. start: leaves do not run before."`
	At       time.Duration `yaml:"at" default:"0s" example:"30s" help:"Instant of the event."`
	For      time.Duration `yaml:"for" default:"0s" example:"10s" help:"How long it lasts."`
	Over     time.Duration `yaml:"over" default:"0s: all at once" example:"20s" help:"Spreads the instants of the leaves evenly over this time."`
	Graceful bool          `yaml:"graceful" default:"false" example:"true" help:"Leaves give their assignments back before they stop."`
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
