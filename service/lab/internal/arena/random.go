package arena

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// The modes in which each random scenario is played, as groups of rows.
const (
	Proxy   = "proxy"   // the guard sees the end of the work
	Library = "library" // the guard sees its caller leave
)

// Bounds of the random scenarios.
const (
	mostCalls = 300_000 // in a run: visits of layers, by all attempts
	mostRate  = 30_000  // calls per second, so that a run lasts for ten seconds
	services  = 2000    // how many service times a run should last for
	shortest  = 30 * time.Second
)

// A random is a random scenario in the making.
type random struct {
	*rand.Rand
	workers  int
	service  time.Duration
	cv       float64
	load     float64 // rate / capacity
	timeout  time.Duration
	duration time.Duration
	rate     float64 // at that load
	attempts int     // of a call
	visits   int     // of layers, by an attempt

	// What a kind adds, as lines of YAML: fields of the service, of the client,
	// and layers below the service.
	// Fields of the guard are in one line, each after a comma.
	station, client []string
	guard, below    string
	profile         func(rate float64) string // if nil, a constant rate
}

// A kind is a subject of random scenarios. shape runs before the duration
// and the rate are known, measure after.
type kind struct {
	name    string
	shape   func(r *random)
	measure func(r *random)
}

// kinds are the kinds of which each seed has a scenario.
var kinds = []kind{
	{name: "plain"},
	{name: "sharing", shape: func(r *random) { r.add("sharing: true") }},
	{name: "contention", shape: func(r *random) {
		sigma := 0.02 * r.Float64()
		r.add("contention: {sigma: %.4g, kappa: %.4g}", sigma, (1-sigma)/math.Pow(float64(r.workers), 2)) // the knee is at workers
		r.workers *= 4
	}},
	{name: "slowdown", measure: func(r *random) {
		r.add("changes: [{at: %v, slowdown: %.3g}, {at: %v, slowdown: 1}]", r.share(0.33), r.between(1.5, 4), r.share(0.67))
	}},
	{name: "outage", shape: func(r *random) { r.add("refuse_after: 1ms") }, measure: func(r *random) {
		out := min(max(r.times(r.between(0.2, 20)), 20*time.Millisecond), r.share(0.1))
		r.add("changes: [{at: %v, down: true}, {at: %v, down: false}]", r.share(0.4), r.share(0.4)+out)
	}},
	{name: "refusals", shape: func(r *random) { r.add("refuse_rate: %.3g", 0.03+0.37*r.Float64()) }},
	{name: "own-queue", shape: func(r *random) { r.add("queue: %d", r.IntN(21)) }},
	{name: "failures", shape: func(r *random) {
		r.add("failure_rate: %.3g", 0.03+0.27*r.Float64())
		r.add("fail_after: %v", r.times(2*r.Float64()))
	}},
	{name: "pauses", shape: func(r *random) {
		length := r.times(r.between(0.5, 4))
		r.add("pause: {first: %v, every: %v, for: %v}", 5*length, round(r.between(10, 40)*float64(length)), length)
	}},
	{name: "two-stations", shape: func(r *random) {
		r.below = fmt.Sprintf(`  - name: database
    workers: %d
    service_time: {mean: %v, distribution: lognormal, cv: %.3g}
`, max(int(float64(r.workers)*r.between(0.2, 1)), 1), r.times(r.between(0.2, 2)), r.cv)
	}},
	{name: "bursts", measure: func(r *random) {
		every := min(r.times(r.between(50, 200)), r.share(0.1))
		r.client = append(r.client, fmt.Sprintf("burst: {every: %v, for: %v}", every, round((0.2+0.5*r.Float64())*float64(every))))
	}},
	{name: "retries", shape: func(r *random) {
		r.attempts = 2 + r.IntN(3)
		r.client = append(r.client, fmt.Sprintf("retry: {attempts: %d, backoff: %v}", r.attempts, r.times(r.between(0.5, 4))))
	}},
	{name: "ramp", measure: func(r *random) {
		low := 0.2 + 0.4*r.Float64()
		r.profile = func(rate float64) string {
			return fmt.Sprintf("%.5g..%.5g@%v,%.5g..%.5g@%v", low*rate, rate, r.share(0.5), rate, low*rate, r.share(0.5))
		}
	}},
	{name: "bimodal", shape: func(r *random) {
		share, factor := r.between(0.01, 0.1), r.between(10, 100)
		heavy := r.times(factor)
		r.add("classes: {heavy: {mean: %v, distribution: lognormal, cv: %.3g}}", heavy, min(r.cv, 0.5))
		r.client = append(r.client, fmt.Sprintf("mix: [{class: \"\", share: %.4g}, {class: heavy, share: %.4g}]", 1-share, share))
		r.timeout = max(r.timeout, 3*heavy)
	}},
}

// extra are the kinds of which one seed in three has a scenario more.
var extra = []kind{
	{name: "patience", shape: func(r *random) {
		r.timeout = r.times(r.between(1.5, 16))
		r.client = append(r.client, fmt.Sprintf("timeout_cv: %.3g", r.between(0.2, 2)))
		r.visits = 2 // in time to simulate: time-outs that are not in order are many events
	}},
	{name: "stalls", shape: func(r *random) {
		length := r.between(5e6, 200e6)
		r.guard += fmt.Sprintf(", stalls: {every: %v, for: %v, random: true}", round(length/r.between(0.03, 0.4)), round(length))
	}},
	{name: Street, shape: func(r *random) { r.street() }},
}

// street makes handlers of several routes, each with its own limit, that call pools of
// connections, and clients that leave and come back.
func (r *random) street() {
	pools := 1 + r.IntN(3)
	query := make([]float64, pools) // mean time, in ns
	for i := range query {
		query[i] = r.between(1e7, 1e8)
		r.below += fmt.Sprintf("  - {name: pool%d, workers: %d, service_time: {mean: %v, distribution: lognormal, cv: %.3g}}\n",
			i+1, int(r.between(3, 26)), round(query[i]), r.between(0.2, 1))
	}
	var classes, instances, mix []string
	for i := range 2 + r.IntN(5) {
		name, cost := string(rune('a'+i)), 1e6
		calls := make([]string, 1+r.IntN(6))
		for k := range calls {
			pool := r.IntN(pools)
			calls[k] = fmt.Sprintf("pool%d", pool+1)
			cost += query[pool]
		}
		classes = append(classes, fmt.Sprintf("%s: {mean: 1ms, calls_of: [%s]}", name, strings.Join(calls, ", ")))
		instances = append(instances, fmt.Sprintf("{classes: [%s]}", name))
		mix = append(mix, fmt.Sprintf("{class: %s, share: %.3g}", name, r.between(0.3, 3)*100e6/cost))
	}
	r.add("classes: {%s}", strings.Join(classes, ", "))
	r.add("cancel_abandoned: %v", r.IntN(2) == 0)
	r.guard += fmt.Sprintf(", instances: [%s]", strings.Join(instances, ", "))
	r.attempts = 1 + r.IntN(3)
	r.client = append(r.client, fmt.Sprintf("mix: [%s]", strings.Join(mix, ", ")), fmt.Sprintf("retry: {attempts: %d}", r.attempts))
	r.visits = 4 // some 3 queries, and the handler
	r.workers, r.service, r.cv = 0, time.Millisecond, 0.1
	r.timeout, r.load = round(r.between(0.2e9, 30e9)), r.between(0.5, 3)
}

// RandomKinds returns the names of the kinds of random scenarios.
func RandomKinds() (names []string) {
	for _, k := range slices.Concat(kinds, extra) {
		names = append(names, k.name)
	}
	return names
}

// Random returns the rows of the random scenarios of a seed, one for each mode. It has a
// scenario of one of fourteen kinds, and one seed in three has another, of an extra kind.
// If kind is not empty, it has one, of that kind. The same seed gives the same rows.
func Random(seed uint64, kind string) (rows []Row, err error) {
	all := []string{kind}
	if kind == "" && seed%3 == 0 {
		all = append(all, extra[seed/3%uint64(len(extra))].name)
	}
	for _, kind := range all {
		name, text, err := RandomYAML(seed, kind)
		if err != nil {
			return nil, err
		}
		more, err := parse(name, []byte(text))
		if err != nil {
			return nil, err
		}
		for i := range more {
			more[i].Group = more[i].scenario.Name
			if isExtra(kind) {
				more[i].Group = kind
			}
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func isExtra(name string) bool {
	return slices.ContainsFunc(extra, func(k kind) bool { return k.name == name })
}

// RandomYAML returns the name of a random scenario, and its file. If kind is empty, it is of
// the first kind that Random draws for the seed.
func RandomYAML(seed uint64, kind string) (name, text string, err error) {
	i := int(seed % uint64(len(kinds)))
	if kind != "" {
		i = slices.Index(RandomKinds(), kind)
	}
	if i < 0 {
		return "", "", fmt.Errorf("arena: random kind %q: must be one of %s", kind, strings.Join(RandomKinds(), ", "))
	}
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0x7765697265)), attempts: 1, visits: 1}
	if i >= len(kinds) { // not the service that the seed has with the first kinds
		r.Rand = rand.New(rand.NewPCG(seed, uint64(i)))
	}
	return r.make(seed, slices.Concat(kinds, extra)[i])
}

// make makes the scenario.
func (r *random) make(seed uint64, kind kind) (name, text string, err error) {
	r.draw()
	if kind.shape != nil {
		kind.shape(r)
	}
	r.rate, r.duration = 1, time.Second
	// measure adds nothing that changes the capacity at the beginning.
	file, err := scenario.Parse("random", []byte(r.yaml(seed, kind.name)))
	if err != nil {
		return "", "", fmt.Errorf("arena: random scenario %d: %w", seed, err)
	}
	f := file.Scenario.Forecast()
	r.rate = min(r.load*f.Capacity(0)/f.Works(0), mostRate)
	calls := float64(mostCalls) / float64(r.attempts*r.visits)
	r.duration = round(min(max(services*float64(r.service), float64(shortest), 4*float64(r.timeout)), calls/r.rate*1e9))
	if kind.measure != nil {
		kind.measure(r)
	}
	return fmt.Sprintf("%d-%s", seed, kind.name), r.yaml(seed, kind.name), nil
}

// draw draws what every kind has.
func (r *random) draw() {
	r.load = 0.6 + 1.9*r.Float64()
	for r.workers == 0 || r.load*float64(r.workers)/r.service.Seconds() > mostRate {
		r.workers = int(r.between(2, 401))
		r.service = round(r.between(2e6, 3e9))
	}
	r.cv = r.between(0.2, 2)
	r.timeout = r.times(r.between(4, 16))
}

// between draws from [low, high), evenly on a logarithmic scale.
func (r *random) between(low, high float64) float64 {
	return low * math.Pow(high/low, r.Float64())
}

func (r *random) add(format string, args ...any) {
	r.station = append(r.station, fmt.Sprintf(format, args...))
}

// times is a multiple of the service time.
func (r *random) times(n float64) time.Duration { return round(n * float64(r.service)) }

// share is a share of the duration.
func (r *random) share(x float64) time.Duration { return round(x * float64(r.duration)) }

// round keeps three digits of a duration in nanoseconds, as a reader does.
func round(ns float64) time.Duration {
	digit := math.Pow(10, math.Floor(math.Log10(max(ns, 1)))-2)
	return time.Duration(math.Round(ns/digit) * digit)
}

// yaml writes the file.
func (r *random) yaml(seed uint64, kind string) string {
	g := sim.Auto()
	rate := fmt.Sprintf("%.5g", r.rate)
	if r.profile != nil {
		rate = r.profile(r.rate)
	}
	var b strings.Builder
	which := ""
	if kind != kinds[seed%uint64(len(kinds))].name {
		which = " --kind " + kind
	}
	fmt.Fprintf(&b, "# A random scenario: weirlab arena --random %d%s --yaml\nname: Random %[1]d, %[3]s\nduration: %v\nseed: %[1]d\nlayers:\n", seed, which, kind, r.duration)
	fmt.Fprintf(&b, "  - name: service\n    workers: %d\n    service_time: {mean: %v, distribution: lognormal, cv: %.3g}\n", r.workers, r.service, r.cv)
	for _, line := range r.station {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	fmt.Fprintf(&b, "    guard: {limit: auto, queue: %d, max_wait: %v, discipline: %v, target: %v, interval: %v, blind: true%s}\n%s",
		g.Queue, g.MaxWait, g.Discipline, g.Target, g.Interval, r.guard, r.below)
	fmt.Fprintf(&b, "clients:\n  - name: users\n    rate: %s # %.3g times the capacity\n    timeout: %v\n", rate, r.load, r.timeout)
	for _, line := range r.client {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	fmt.Fprintf(&b, "variants:\n  - {name: %s}\n  - {name: %s, set: {layers.service.guard.library: true}}\n", Proxy, Library)
	return b.String()
}
