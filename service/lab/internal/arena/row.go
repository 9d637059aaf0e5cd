package arena

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/scenarios"
)

// A Row of the matrix is a scenario that every policy is run in.
type Row struct {
	Name  string // of its file, without .yaml, and of its variants: file/variant
	Group string // one of Groups
	Title string

	scenario sim.Scenario
	forecast *sim.Forecast
	knee     int
	deadline time.Duration
	service  time.Duration // that a success takes if there is no other call
	relief   time.Duration // when overload, or an outage, ends for good; never if it does not
}

// never is the instant of what does not happen.
const never time.Duration = math.MaxInt64

// The groups of rows.
const (
	Classic    = "classic"    // one guard, one cause of overload
	Production = "production" // several guards, faults that are not load, outages, streams
	Street     = "street"     // routes that share a database, and clients that leave
	Search     = "search"     // limits that are hard to find
)

// order is that in which the files are shown; others follow.
var order = map[string][]string{
	Classic: {
		"steady", "low-traffic", "overload", "step-2x", "step-5x", "step-10x", "ramp", "bursts", "retry-storm",
		"slowdown", "slowdown-full", "failover", "gc-pause", "slow-requests", "lognormal", "mixed",
		"contention", "sharing", "tenants", "layers", "small", "large",
	},
	Production: {
		"instances", "instances-200", "company", "background", "faults", "own-queue", "outage", "outage-slow",
		"bimodal", "scale", "slow-work", "streams", "change", "library",
	},
	Street: {"routes", "six", "pools", "queries", "mixture", "idle"},
	Search: {"stalls", "capacity", "patience", "growth", "dispersed"},
}

// Groups returns the names of the groups, in the order in which they are shown.
func Groups() []string { return []string{Classic, Production, Street, Search} }

// Rows returns the scenarios that the binary has with it, of some groups.
func Rows(groups ...string) (rows []Row, err error) {
	for _, group := range groups {
		folder := "arena"
		if group != Classic {
			folder += "/" + group
		}
		files, err := fs.Sub(scenarios.Files, folder)
		if err != nil {
			return nil, err
		}
		more, err := Read(files, group)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// Read returns the rows of a group: of each .yaml file one or, if it has
// variants, one for each.
func Read(files fs.FS, group string) (rows []Row, err error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	place := func(name string) int {
		if i := slices.Index(order[group], strings.TrimSuffix(name, ".yaml")); i >= 0 {
			return i
		}
		return len(order[group])
	}
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		more, err := parse(name, text)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	for i := range rows {
		rows[i].Group = group
	}
	return rows, nil
}

// parse returns the rows of a file: one for each variant.
func parse(name string, text []byte) (rows []Row, err error) {
	file, err := scenario.Parse(name, text)
	if err != nil {
		return nil, err
	}
	for i, runs := range file.Figures {
		for _, sc := range runs {
			row, err := newRow(strings.TrimSuffix(name, ".yaml"), file.Scenario.Name, file.Titles[i], sc)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// timeless is how many service times a caller without a deadline or a time-out
// is taken to wait gladly: what latencies are compared with.
const timeless = 10

// newRow returns the row of one variant. The title of its figure begins with
// the title of the file, and goes on with the names of the variants.
func newRow(name, whole, title string, sc sim.Scenario) (Row, error) {
	if sc.Name != "" {
		title += ", " + sc.Name
	}
	name += strings.ReplaceAll(strings.TrimPrefix(title, whole), ", ", "/")
	f := sc.Forecast()
	r := Row{Name: name, Title: title, scenario: sc, forecast: f, deadline: never, relief: relief(sc, f), service: f.Work(0), knee: knee(sc, f)}
	for _, c := range sc.Clients {
		r.deadline = min(r.deadline, cmp.Or(c.Deadline, c.Timeout, never))
	}
	if r.deadline == never {
		r.deadline = timeless * r.service
	}
	if !slices.ContainsFunc(sc.Layers, func(l sim.Layer) bool { return l.Guard != nil }) {
		return r, fmt.Errorf("arena: no layer has a guard: there is no place for a policy")
	}
	return r, nil
}

// Duration is how long a run takes, in the time of the scenario.
func (r Row) Duration() time.Duration { return r.scenario.Duration }

// Instances is how many instances of a policy play.
func (r Row) Instances() (n int) {
	for _, l := range r.scenario.Layers {
		if l.Guard != nil {
			n += l.Guard.Instances.Count()
		}
	}
	return n
}

// with returns the scenario under a policy.
func (r *Row) with(p Policy, seed uint64, deadlines bool) sim.Scenario {
	sc := r.scenario
	sc.Seed, sc.Step = seed, step
	sc.Layers = slices.Clone(sc.Layers)
	for i := range sc.Layers {
		was := sc.Layers[i].Guard
		if was == nil {
			continue
		}
		g := p.Guard(part(r.knee, was.Instances))
		if g == nil && slices.ContainsFunc(was.Instances, func(g sim.Group) bool { return g.Limit != nil }) {
			g = &sim.Guard{Limit: sim.Limit{Name: "none"}} // its neighbour keeps its limit
		}
		if g != nil {
			g.Blind, g.Library, g.Instances = !deadlines, was.Library, was.Instances
			g.Stalls = was.Stalls
		}
		sc.Layers[i].Guard = g
	}
	return sc
}

// part is the share of the knee that each instance of a policy is told of. The
// limits of the groups that bring one are taken off first.
func part(knee int, all sim.Instances) int {
	n := all.Count()
	for _, g := range all {
		if g.Limit != nil {
			n -= max(g.Count, 1)
			knee -= max(g.Count, 1) * g.Limit.N
		}
	}
	return max(int(float64(knee)/float64(max(n, 1))+0.5), 1)
}

// step is the step of the series that recovery is measured on.
const step = 100 * time.Millisecond

// knee is how many calls have to be in flight, at the beginning, for the
// throughput to be the most that there is: by Little's law capacity × time.
// Under contention the time is that at the peak.
func knee(sc sim.Scenario, f *sim.Forecast) int {
	for _, l := range sc.Layers {
		if l.Contention != (sim.Contention{}) {
			best, at := 0.0, 1
			for n := 1; n <= l.Workers; n++ {
				if x := float64(n) / l.Contention.Factor(n); x > best {
					best, at = x, n
				}
			}
			return at
		}
	}
	return max(int(f.Capacity(0)/f.Works(0)*f.Unloaded(0).Seconds()+0.5), 1)
}

// outage is the share of calls that work below which a service is out.
const outage = 0.1

// relief is the instant from which on the load never again exceeds what can be
// done by as much as before, and no outage begins: that at which the last
// overload ends or abates, or the last outage ends.
func relief(sc sim.Scenario, f *sim.Forecast) time.Duration {
	var profiles []pace.Profile
	for _, c := range sc.Clients {
		if p, err := pace.Parse(c.Rate); err == nil {
			profiles = append(profiles, p)
		}
	}
	last, before, worked := never, 0.0, 1.0
	every := max(10*time.Millisecond, sc.Duration/60_000)
	for at := time.Duration(0); at < sc.Duration; at += every {
		rate := 0.0
		for _, p := range profiles {
			rate += p.Rate(at)
		}
		works := f.Works(at)
		load := rate * works / f.Capacity(at)
		if before > 1 && (load <= 1 || load < 0.9*before) && works >= worked || worked < outage && works >= outage {
			last = at
		}
		before, worked = load, works
	}
	return last
}
