package arena

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/pace"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/sim"
	"github.com/weir-go/weir/scenarios"
)

// A Row of the matrix is a scenario that every policy is run in.
type Row struct {
	Name  string // of its file, without .yaml
	Title string

	scenario sim.Scenario
	knee     int
	deadline time.Duration
	service  time.Duration // that a call takes if nobody else is there
	relief   time.Duration // when overload ends for good; never if it does not
}

// never is the instant of what does not happen.
const never time.Duration = math.MaxInt64

// order is that in which the rows are shown; others follow.
var order = []string{
	"steady", "low-traffic", "overload", "step-2x", "step-5x", "step-10x", "ramp", "bursts", "retry-storm",
	"slowdown", "slowdown-full", "failover", "gc-pause", "slow-requests", "lognormal", "mixed",
	"contention", "sharing", "tenants", "layers", "small", "large",
}

// Rows returns the scenarios that the binary has with it.
func Rows() ([]Row, error) { return Read(scenarios.Arena()) }

// Read returns a row for each .yaml file.
func Read(files fs.FS) (rows []Row, err error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	place := func(name string) int {
		if i := slices.Index(order, strings.TrimSuffix(name, ".yaml")); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		file, err := scenario.Parse(name, text)
		if err != nil {
			return nil, err
		}
		row, err := newRow(strings.TrimSuffix(name, ".yaml"), file.Scenario)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func newRow(name string, sc sim.Scenario) (Row, error) {
	r := Row{Name: name, Title: sc.Name, scenario: sc, deadline: never, relief: relief(sc)}
	for _, c := range sc.Clients {
		d := c.Deadline
		if d == 0 {
			d = c.Timeout
		}
		if d == 0 {
			return r, fmt.Errorf("arena: the client %q has neither a deadline nor a timeout", c.Name)
		}
		r.deadline = min(r.deadline, d)
	}
	if !slices.ContainsFunc(sc.Layers, func(l sim.Layer) bool { return l.Guard != nil }) {
		return r, fmt.Errorf("arena: no layer has a guard: there is no place for a policy")
	}
	r.service = sc.Unloaded(0)
	r.knee = knee(sc)
	return r, nil
}

// Duration is how long a run takes, in the time of the scenario.
func (r Row) Duration() time.Duration { return r.scenario.Duration }

// with returns the scenario under a policy.
func (r *Row) with(p Policy, seed uint64, deadlines bool) sim.Scenario {
	sc := r.scenario
	sc.Seed, sc.Step = seed, step
	sc.Layers = slices.Clone(sc.Layers)
	for i := range sc.Layers {
		if sc.Layers[i].Guard == nil {
			continue
		}
		g := p.Guard(r.knee)
		if g != nil {
			g.Blind = !deadlines
		}
		sc.Layers[i].Guard = g
	}
	return sc
}

// step is that of the series that recovery is measured on.
const step = 100 * time.Millisecond

// knee is how many calls have to be in flight, at the beginning, for the
// throughput to be the most that there is: by Little's law capacity × time.
// Under contention the time is that at the peak.
func knee(sc sim.Scenario) int {
	for _, l := range sc.Layers {
		if l.Contention != (sim.Contention{}) {
			best, at := 0.0, 1
			for n := 1; n <= l.Workers; n++ {
				factor := 1 + l.Contention.Sigma*float64(n-1) + l.Contention.Kappa*float64(n)*float64(n-1)
				if x := float64(n) / factor; x > best {
					best, at = x, n
				}
			}
			return at
		}
	}
	return max(int(sc.Capacity(0)*sc.Unloaded(0).Seconds()+0.5), 1)
}

// relief is the instant from which on the load never again exceeds what can be
// done by as much as before: that at which the last overload ends or abates.
func relief(sc sim.Scenario) time.Duration {
	var profiles []pace.Profile
	for _, c := range sc.Clients {
		if p, err := pace.Parse(c.Rate); err == nil {
			profiles = append(profiles, p)
		}
	}
	last, before := never, 0.0
	for at := time.Duration(0); at < sc.Duration; at += 10 * time.Millisecond {
		rate := 0.0
		for _, p := range profiles {
			rate += p.Rate(at)
		}
		load := rate / sc.Capacity(at)
		if before > 1 && (load <= 1 || load < 0.9*before) {
			last = at
		}
		before = load
	}
	return last
}
