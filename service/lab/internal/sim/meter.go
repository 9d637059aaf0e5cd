package sim

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A meter counts the calls of the clients. A call counts at its intended start, an
// answer when it comes. Only totals include the warm-up.
type meter struct {
	from, every time.Duration // end of the warm-up; step of the series
	next        time.Duration // end of the present step
	series      []Step
	step        Step // the present one
	recent      *hdrhistogram.Histogram

	attempts, calls uint64 // totals, warm-up included
	answers         counts

	all        tally
	byClient   []tally
	byTenant   [][]tally // of a client
	byClass    []tally
	found      [4]*tally               // of the present call
	rejections *hdrhistogram.Histogram // of attempts
	oracle     oracle
}

// A tally has the counts of some of the calls.
type tally struct {
	name    string
	began   uint64
	ended   counts
	latency *hdrhistogram.Histogram
	sum     float64 // of latencies, in nanoseconds
}

// counts are counts of results: of each kind but rejected, and of each reason.
type counts [32]uint64

// index returns the index of a result in counts: only the last kind has reasons.
func (r result) index() int { return int(r.kind) + int(r.reason) }

// outcomes returns the counts that are not zero, by name.
func (c *counts) outcomes() map[string]uint64 {
	all := map[string]uint64{}
	for i, n := range c {
		switch {
		case n == 0:
		case i <= int(rejected):
			all[kindNames[i]] = n
		default:
			all[weir.Reason(i-int(rejected)).String()] = n
		}
	}
	return all
}

var kindNames = [...]string{"ok", "failed", "overloaded", "timeout", "rejected"}

// longest is the highest value of the histograms, in nanoseconds.
const longest = int64(4 * time.Hour)

func histogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest, digits)
}

func note(h *hdrhistogram.Histogram, d time.Duration) {
	if err := h.RecordValue(min(int64(d), longest)); err != nil {
		panic("sim: " + err.Error()) // d is within the histogram's range
	}
}

func (m *meter) init(s *Sim) {
	sc := &s.scenario
	m.from, m.every, m.next = sc.Warmup, sc.Step, sc.Step
	m.recent, m.rejections = histogram(2), histogram(2)
	m.all.latency = histogram(3)
	for _, name := range s.classes {
		m.byClass = append(m.byClass, tally{name: name})
	}
	for i := range sc.Clients {
		c := &sc.Clients[i]
		m.byClient = append(m.byClient, tally{name: c.Name})
		var tenants []tally
		for _, name := range c.tenants() {
			tenants = append(tenants, tally{name: name})
		}
		m.byTenant = append(m.byTenant, tenants)
	}
	m.oracle.init(sc, s.classes)
	for i := range s.layers {
		s.layers[i].since, s.layers[i].from = sc.Warmup, sc.Warmup
	}
}

func (m *meter) began(c *call) {
	m.calls++
	m.step.Offered++
	m.oracle.arrive(c)
	if c.intended < m.from {
		return
	}
	for _, t := range m.tallies(c) {
		t.began++
	}
}

// tallies returns the tallies in which a call counts, until the next call of tallies.
func (m *meter) tallies(c *call) []*tally {
	found := append(m.found[:0], &m.all)
	client := part(&m.all, m.byClient, int(c.client))
	if client != &m.all {
		found = append(found, client)
	}
	if tenant := part(client, m.byTenant[c.client], int(c.tenant)); tenant != client {
		found = append(found, tenant)
	}
	if class := part(&m.all, m.byClass, int(c.class)); class != &m.all {
		found = append(found, class)
	}
	return found
}

// part returns the tally of a part of a whole. The only part shares the tally of the
// whole.
func part(whole *tally, parts []tally, i int) *tally {
	if len(parts) == 1 {
		return whole
	}
	return &parts[i]
}

// refused records the end of an attempt that was rejected.
func (m *meter) refused(after, now time.Duration) {
	m.step.Refused++
	if now >= m.from {
		note(m.rejections, after)
	}
}

func (m *meter) ended(c *call, r result, now time.Duration) {
	m.answers[r.kind]++ // whatever the reason
	latency := now - c.intended
	switch r.kind {
	case ok:
		m.step.Good++
		note(m.recent, latency)
	case timedOut:
		m.step.TimedOut++
	}
	if now < m.from {
		return
	}
	for _, t := range m.tallies(c) {
		t.add(r, latency)
	}
}

func (t *tally) add(r result, latency time.Duration) {
	t.ended[r.index()]++
	if r.kind != ok {
		return
	}
	if t.latency == nil {
		t.latency = histogram(2)
	}
	note(t.latency, latency)
	t.sum += float64(latency)
}

// sample ends a step of the series.
func (s *Sim) sample() {
	m := &s.meter
	st := m.step
	st.At = s.now
	if m.recent.TotalCount() > 0 {
		st.P50 = time.Duration(m.recent.ValueAtQuantile(50))
		st.P99 = time.Duration(m.recent.ValueAtQuantile(99))
		m.recent.Reset()
	}
	for i := range s.layers {
		st.Layers = append(st.Layers, s.layers[i].point())
	}
	m.series = append(m.series, st)
	m.step = Step{}
	m.next += m.every
	if s.now < s.scenario.Duration {
		m.next = min(m.next, s.scenario.Duration)
	}
}

func (l *layer) point() Point {
	p := Point{Busy: l.busy, Queued: l.queued}
	if st := l.stats(); st != nil {
		p.Limit, p.Inflight, p.Waiting = st.Limit, st.Inflight, st.Waiting
	}
	for i := range l.guards {
		if len(l.guards) > 1 {
			p.Limits = append(p.Limits, l.guards[i].stats().Limit)
		}
	}
	return p
}

// A flow measures the jobs in a layer: N and X·R of Little's law, independently.
type flow struct {
	inside      int // jobs: at the guard, in the queue, at work
	from, since time.Duration
	area        float64 // ∫ inside dt, in nanoseconds
	busyArea    float64 // ∫ busy dt
	arrived     uint64
	left        counts
	unwanted    uint64  // jobs that go on after their callers have left
	sojourn     float64 // sum over the jobs that left, in nanoseconds
	busy        int     // workers that are taken; with Sharing, jobs that work
}

// note brings the integrals up to now. Before from, since is later than now.
func (f *flow) note(now time.Duration) {
	if now > f.since {
		dt := float64(now - f.since)
		f.area += float64(f.inside) * dt
		f.busyArea += float64(f.busy) * dt
		f.since = now
	}
}

func (f *flow) enter(now time.Duration) {
	f.note(now)
	f.inside++
	if now >= f.from {
		f.arrived++
	}
}

func (f *flow) leave(now, sojourn time.Duration, r result) {
	f.note(now)
	f.inside--
	if now >= f.from {
		f.left[r.kind]++
		f.sojourn += float64(sojourn)
	}
}

// trace writes the record of a call.
func (s *Sim) trace(c *call, r result) trace.Record {
	statuses := [...]int{ok: 200, failed: 500, overloaded: 503, timedOut: 0, rejected: 503}
	rec := trace.Record{Intended: c.intended, Start: c.intended, End: s.now, Status: statuses[r.kind]}
	switch r.kind {
	case timedOut:
		rec.Reason = trace.Timeout
	case rejected:
		rec.Reason = r.reason.String()
	}
	return rec
}
