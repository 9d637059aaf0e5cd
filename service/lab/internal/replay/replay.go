// Package replay plays the requests of a recording again in virtual time, through the code that ships: with the limit
// that was in force, and with others. Package sim does all of it.
//
// The requests come when they came. Their work, without the queue, follows from the recording and from the Station. In the
// replay, requests of a class that came one after the other exchange their work, so that a service that became slower is
// slower in the replay, too.
//
// A replay of the limit that was in force comes first. If it does not show what happened, the model does not hold, and
// there is nothing else.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/advise"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/station"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Options say what to replay.
type Options struct {
	Workers  int                            // of the service; if 0, the recording tells
	Before   *Limit                         // that was in force; if nil, the recording tells
	Policies []Policy                       // what would have been; if empty, Auto, as many as there are workers, and none
	Choose   func(station.Station) []Policy // returns Policies, if they depend on the service; nil is none
	Without  []bool                         // of each request that was sent: it does not come with Policies; nil if all come
	Goodput  bool                           // only what is served must be as it was, so that the model holds: latencies are not of interest
	Seeds    int                            // number of runs of each, >= 1
	Seed     uint64                         // of the first run
}

// A Report has what happened, and what would have.
type Report struct {
	File     string  `json:"file"`
	Cut      string  `json:"cut,omitempty"` // why the rest of the file is not read
	Requests int     `json:"requests"`
	Length   float64 `json:"length"` // in seconds

	Station  station.Station `json:"station"`
	Before   *Limit          `json:"limit"` // that was in force; null if it is not known
	Happened Figures         `json:"happened"`
	Replayed *Outcome        `json:"replayed"` // with the same limit
	Holds    bool            `json:"holds"`    // the replay shows what happened
	Reasons  []string        `json:"reasons"`  // why the model does not hold, or may not

	Outcomes []Outcome `json:"outcomes,omitempty"` // of the policies, in their order
	Seeds    int       `json:"seeds"`

	happened *tally
}

// An Outcome has the figures of a policy: the median of the runs, the lowest and the highest.
type Outcome struct {
	Policy string  `json:"policy"`
	Median Figures `json:"median"`
	Low    Figures `json:"low"`
	High   Figures `json:"high"`

	tally *tally // of all runs
}

// Bounds of a model that holds.
const (
	mostGoodput = 0.05
	mostP95     = 0.15
	mostBent    = 0.15 // how much longer the work takes under load, as a logarithm
)

// A model is a station and the requests that came to it.
type model struct {
	file    *recorded.File
	records []recording.Record // that were sent
	order   []int              // of the records of work
	calls   []sim.Arrival
	length  time.Duration
	station station.Station
	pieces  []station.Piece
	usual   time.Duration // mean of the work
	part    station.Part  // that the station was found in
	slow    []float64     // by epoch, if the capacity changed
	without []bool        // calls that do not come; nil if all do
	options Options

	happened *tally
}

// Run replays a recording. An error is one of the context: what the recording lacks is in the Report.
func Run(ctx context.Context, f *recorded.File, o Options) (*Report, error) {
	m := newModel(f, o)
	r := &Report{
		File: f.Name, Cut: f.Note(), Requests: len(m.records), Length: m.length.Seconds(), Happened: m.happened.figures(), happened: m.happened,
		Seeds: o.Seeds, Reasons: []string{},
	}
	was, advice, reason := m.know()
	r.Before = was
	if reason != "" {
		r.Reasons = append(r.Reasons, reason)
		return r, nil
	}
	if reason, err := m.find(ctx, advice, Policy{Limit: *was}); err != nil || reason != "" {
		r.Reasons = append(r.Reasons, reason)
		return r, err
	}
	replayed, err := m.play(ctx, Policy{Limit: *was}, o.Seeds)
	if err != nil {
		return nil, err
	}
	r.Station, r.Replayed = m.station, replayed
	m.judge(r)
	if !r.Holds {
		return r, nil
	}
	if o.Choose != nil {
		o.Policies = o.Choose(m.station)
	} else if len(o.Policies) == 0 {
		o.Policies = usual(m.station, *was)
	}
	m.without = o.Without
	for _, p := range o.Policies {
		out, err := m.play(ctx, p, o.Seeds)
		if err != nil {
			return nil, err
		}
		r.Outcomes = append(r.Outcomes, *out)
	}
	return r, nil
}

// newModel returns what is known without a station.
func newModel(f *recorded.File, o Options) *model {
	m := &model{file: f, calls: f.Calls(), options: o}
	for i := range f.Records {
		if recorded.Sent(&f.Records[i]) {
			m.records = append(m.records, f.Records[i])
		}
	}
	if n := len(m.calls); n > 0 {
		m.length = m.calls[n-1].At + 1
	}
	m.happened = newTally(m.length)
	for i := range m.records {
		m.happened.add(m.calls[i].At-m.calls[i].Late, &m.records[i])
	}
	m.order = station.Admitted(m.records)
	return m
}

// usual returns the policies of interest that were not in force: Auto, a limit of as many as there are workers, and none.
func usual(st station.Station, was Limit) (all []Policy) {
	for _, l := range []Limit{{Name: "auto"}, {Name: "fixed", N: st.Workers}, {Name: "none"}} {
		if (l.Name != "fixed" || l.N > 0) && l.String() != was.String() {
			all = append(all, Policy{Limit: l})
		}
	}
	return all
}

// know returns the limit that was in force and the advice on the recording, or the reason why nothing is known.
func (m *model) know() (was *Limit, a *advise.Advice, reason string) {
	was = m.options.Before
	if was == nil {
		l, reason := before(m.records)
		if reason != "" {
			return nil, nil, reason
		}
		was = &l
	}
	a = advise.Advise(m.file, advise.Options{Seed: m.options.Seed})
	switch {
	case len(m.order) < 4*station.Fewest:
		return was, nil, fmt.Sprintf("Too few observations: the service worked on %s.", table.Count(len(m.order), "request"))
	case !a.Fitted():
		return was, nil, a.Doubts[0]
	}
	return was, a, ""
}

// find takes the service for a station, or returns the reason why it cannot: for one of which the work depends on load
// little, and with which a replay comes near what happened.
func (m *model) find(ctx context.Context, a *advise.Advice, was Policy) (reason string, err error) {
	n, parts := m.options.Workers, m.parts(a)
	all := slices.Concat(station.Fitting(m.records, m.order, parts, n, false), station.Fitting(m.records, m.order, parts, n, true))
	switch {
	case len(all) == 0 && n > 0:
		m.take(station.Station{Workers: n})
		return "", nil
	case len(all) == 0 && a.Knee.Value == nil:
		return a.Doubts[0] + " If you know the workers of the service, give --workers.", nil
	case len(all) == 0:
		m.take(fitted(a))
		return "", nil
	}
	var best station.Match
	var off float64
	least := math.Inf(1)
	for _, found := range all {
		o, err := m.off(ctx, found.Station, was)
		if err != nil {
			return "", err
		}
		if o+found.Score() < least {
			best, off, least = found, o, o+found.Score()
		}
	}
	if n == 0 && a.Knee.Value != nil && a.Contention.Value != nil && *a.Contention.Value > 0 {
		law := fitted(a)
		o, err := m.off(ctx, law, was)
		if err != nil {
			return "", err
		}
		if o+m.crowding(law) < off+m.crowding(best.Station) {
			best = station.Match{Station: law}
		}
	}
	m.part = best.Part
	m.take(best.Station)
	return "", nil
}

// crowding returns how much the work of a station depends on what is in flight.
func (m *model) crowding(st station.Station) float64 {
	b, _ := station.Bent(m.records, station.Crowded(m.records, m.order, st.Pieces(m.records, m.order)))
	return b.Score()
}

// off takes a station, and returns how far a replay with it is from what happened.
func (m *model) off(ctx context.Context, st station.Station, was Policy) (float64, error) {
	m.take(st)
	out, err := m.play(ctx, was, min(m.options.Seeds, 3))
	if err != nil {
		return 0, err
	}
	return out.Median.off(m.happened.figures()), nil
}

// parts returns the parts between which the capacity changed.
func (m *model) parts(a *advise.Advice) (all []station.Part) {
	first := slices.MinFunc(m.records, func(a, b recording.Record) int { return cmp.Compare(a.Intended, b.Intended) }).Intended
	from := 0
	for i := range a.History {
		to := len(m.records)
		if i+1 < len(a.History) {
			at := first + time.Duration(a.History[i+1].From*1e9)
			to, _ = slices.BinarySearchFunc(m.records, at, func(r recording.Record, at time.Duration) int { return cmp.Compare(recorded.Came(&r), at) })
		}
		all = append(all, station.Part{From: from, To: to})
		from = to
	}
	if len(all) == 0 {
		return []station.Part{{From: 0, To: len(m.records)}}
	}
	return all
}

// fitted returns the station of the law that fits best. With a knee that is not known, it is of no use.
func fitted(a *advise.Advice) station.Station {
	st := station.Station{Workers: max(int(math.Round(*a.Knee.Value)), 1)}
	if c := a.Contention.Value; c != nil {
		st.Sigma = *c
	}
	if c := a.Coherence.Value; c != nil && *c > 0 {
		st.Kappa, st.Workers = *c, 0
		if a.Workers != nil {
			st.Workers = max(int(math.Round(*a.Workers)), 1)
		}
	}
	return st
}

// take sets the station.
func (m *model) take(st station.Station) {
	st.Queue = bound(m.records, m.order, st.Workers)
	m.station, m.pieces, m.usual = st, st.Pieces(m.records, m.order), 0
	first := recorded.Came(&m.records[0])
	m.slow = slowdown(m.pieces, m.records, first, m.length)
	known := 0
	for i := range m.pieces {
		p := &m.pieces[i]
		if m.slow != nil {
			p.Divide(m.slow[epoch(p.Begin-first, m.length)])
		}
		if p.Work > 0 {
			known++
			m.usual += (p.Work - m.usual) / time.Duration(known)
		}
	}
}

// off returns how far figures are from others, as a sum of logarithms.
func (f *Figures) off(other Figures) (sum float64) {
	const goodput = 3 // its weight, for which less is allowed
	for _, pair := range [][2]float64{{f.P50, other.P50}, {f.P95, other.P95}, {f.P99, other.P99}} {
		sum += math.Abs(ratio(pair[0], pair[1]))
	}
	return sum + goodput*math.Abs(ratio(f.Served, other.Served))
}

// ratio returns the logarithm of a / b; far from zero if only one of them is 0.
func ratio(a, b float64) float64 {
	if a == 0 && b == 0 {
		return 0
	}
	const far = 20
	return min(max(math.Log(a/b), -far), far)
}

// play replays the calls with a policy, with several seeds.
func (m *model) play(ctx context.Context, p Policy, seeds int) (*Outcome, error) {
	all, tallies := make([]Figures, seeds), make([]*tally, seeds)
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range seeds {
		workers.Go(func() error {
			t := newTally(m.length)
			sc := m.scenario(p, m.options.Seed+uint64(i))
			result, err := sim.Run(ctx, sc, func(r trace.Record) {
				record := recorded.FromTrace(r)
				t.add(r.Intended, &record)
			}, nil)
			if err != nil {
				return err
			}
			t.Wasted = float64(result.Layers[0].Unwanted)
			all[i], tallies[i] = t.figures(), t
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	out := &Outcome{Policy: p.String(), tally: newTally(m.length)}
	out.Median, out.Low, out.High = summary(all)
	for _, t := range tallies {
		out.tally.join(t)
	}
	return out, nil
}

// scenario returns the simulation of a policy.
func (m *model) scenario(p Policy, seed uint64) sim.Scenario {
	var changes []sim.Change
	for i, factor := range m.slow {
		changes = append(changes, sim.Change{At: m.length / epochs * time.Duration(i), Slowdown: new(factor)})
	}
	all := time.Duration(len(m.calls)) * m.usual / time.Duration(max(m.station.Workers, 1)) // one after the other
	return sim.Scenario{
		Name: p.String(), Seed: seed, Duration: 2*(m.length+all) + time.Minute, // by then, all requests have ended
		Layers: []sim.Layer{{
			Name: "service", Guard: p.guard(), Workers: m.station.Workers, Sharing: m.station.Sharing, Queue: m.station.Queue,
			Contention: m.station.Contention(), ServiceTime: dist.ServiceTime{Mean: m.usual}, Changes: changes,
		}},
		Clients: []sim.Client{{Name: "recording", Recorded: m.draw(rand.New(rand.NewPCG(seed, 47))), Retry: p.retry()}},
	}
}

// near is how many calls of a class that follow each other exchange their work.
const near = 32

// draw returns the calls with their work.
func (m *model) draw(rng *rand.Rand) []sim.Arrival {
	calls := slices.Clone(m.calls)
	classes := map[string][]int{}
	for i := range calls {
		classes[calls[i].Class] = append(classes[calls[i].Class], i)
	}
	var rest []int // of classes of which too little is known
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if own := classes[class]; !m.deal(calls, own, near, rng) {
			rest = append(rest, own...)
		}
	}
	slices.Sort(rest)
	if !m.deal(calls, rest, 1, rng) {
		for _, i := range rest {
			calls[i].Work = m.usual
		}
	}
	if m.without == nil {
		return calls
	}
	var come []sim.Arrival
	for i, c := range calls {
		if !m.without[i] {
			come = append(come, c)
		}
	}
	return come
}

// deal gives calls the work of others of them. Calls that came one after the other exchange theirs. A call of which the
// work is not known gets that of one of them. It returns false if the work of too few is known.
func (m *model) deal(calls []sim.Arrival, some []int, enough int, rng *rand.Rand) bool {
	var dealt []time.Duration
	var pieces []station.Piece
	for _, i := range some {
		p := m.pieces[i]
		pieces = append(pieces, p)
		if p.Work > 0 {
			dealt = append(dealt, p.Work)
		}
	}
	if len(dealt) < enough {
		return false
	}
	// What the callers of others had left is longer than what they waited for.
	whole := station.Alone(pieces)
	hidden := len(whole.Sorted) > 0 && slices.ContainsFunc(pieces, func(p station.Piece) bool { return p.Least > 0 })
	for from := 0; from < len(dealt); from += near {
		block := dealt[from:min(from+near, len(dealt))]
		rng.Shuffle(len(block), func(i, k int) { block[i], block[k] = block[k], block[i] })
	}
	k := 0 // of those dealt so far
	for n, i := range some {
		p, c := pieces[n], &calls[i]
		c.Fails = m.records[i].Outcome == recording.Ended(weir.Ignored)
		if p.Work > 0 {
			c.Work = dealt[k]
			k++
			continue
		}
		from := min(k, len(dealt)-1) / near * near
		block := dealt[from:min(from+near, len(dealt))]
		if c.Work = block[rng.IntN(len(block))]; hidden {
			at := min(whole.Above(p.Least), len(whole.Sorted)-1)
			c.Work = max(whole.Sorted[at+rng.IntN(len(whole.Sorted)-at)], p.Least)
		}
	}
	return true
}

// judge compares the replay of what was with what happened.
func (m *model) judge(r *Report) {
	say := func(format string, args ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...)) }
	got, want := r.Replayed.Median, r.Happened
	r.Holds = true
	if off := math.Expm1(ratio(got.Served, want.Served)); want.Served == 0 && got.Served > 0 {
		r.Holds = false
		say("The replay serves %.0f requests, and none was served.", got.Served)
	} else if math.Abs(off) > mostGoodput {
		r.Holds = false
		say("The replay serves %s requests than were served.", compared(off, "more", "fewer"))
	}
	if m.options.Goodput {
		m.explain(r.Holds, say)
		return
	}
	if off := math.Expm1(ratio(got.P95, want.P95)); math.Abs(off) > mostP95 && want.P95 > 0 {
		r.Holds = false
		say("P95 of the replay is %s.", compared(off, "longer", "shorter"))
	}
	pieces := m.station.Pieces(m.records, m.order)
	b, ok := station.Bent(m.records[m.part.From:m.part.To], pieces[m.part.From:m.part.To])
	if !ok && m.options.Workers > 0 {
		b, ok = station.Bent(m.records, station.Crowded(m.records, m.order, pieces))
	}
	if ok && math.Abs(b.Mean) > mostBent+2*b.Error {
		r.Holds = false
		say("%d workers do not explain the response times: requests that came while much was in flight would have worked %.2g times as long as others.", m.station.Workers, math.Exp(b.Mean))
	}
	m.explain(r.Holds, say)
}

// compared says by how much a figure is off, such as "12 % more".
func compared(off float64, more, less string) string {
	if off < 0 {
		more = less
	}
	return fmt.Sprintf("%.0f %% %s", 100*math.Abs(off), more)
}

// explain says what is known to make a model wrong. Most of that matters only if it does not hold.
func (m *model) explain(holds bool, say func(format string, args ...any)) {
	var origins [256]bool
	n, hidden := 0, 0
	for _, i := range m.order {
		r := &m.records[i]
		if r.Origin != 0 && !origins[r.Origin] { // 0: none, as when all are out
			origins[r.Origin] = true
			n++
		}
		if recorded.Unseen(r) {
			hidden++
		}
	}
	found := false
	because := func(format string, args ...any) { found = true; say(format, args...) }
	if n > 1 {
		because("%d origins did the work, and the model has one queue for all.", n)
	}
	if m.slow != nil && slices.Max(m.slow) > 1.5*slices.Min(m.slow) {
		because("The capacity changed within the recording. In the replay, work is as slow at each time as it was then.")
	}
	if holds {
		return
	}
	if 50*hidden > len(m.order) {
		because("The callers of %.0f %% of the requests left before the end, and the recording does not have how long their work went on.", 100*float64(hidden)/float64(len(m.order)))
	}
	if m.file.Lost > 0 {
		because("%d requests have no record.", m.file.Lost)
	}
	if len(m.order) < 500 {
		because("There are few observations: the service worked on %d requests.", len(m.order))
	}
	if !found {
		say("The service has a part that the model lacks, such as pauses, another load, or a pool behind some of the routes.")
	}
}
