package fleet

import (
	"math"
	"time"
)

// Windows in which overshoot is measured, in slots.
const (
	shortSlots = int(time.Second / slot)
	longSlots  = 10 * shortSlots
)

// A meter measures a run.
type meter struct {
	keys    []limited
	firsts  int // number of keys of the first of Scenario.Keys
	windows []window
	spans   []span
	steady  *span // of spans; nil outside it
	byLeaf  []use // in the steady span, [leaf * keys + key]
	jumps   []jump
	watch   []watched
	slots   int // so far

	exchanges, reports, failures int // since the last step
	asks                         int // since the last step: decisions by the upstream
	wasExchanges, wasReports     int // of them, before the slot
	offered, allowed             int
	steps, stepCounts            [steps]int // of the slot; since the last step
	short, long                  float64    // worst overshoot
	first                        counts     // of the first of Scenario.Keys
	stepAt                       time.Duration
	series                       []Step
}

// Counts are of requests.
type counts struct{ offered, allowed int }

// A use counts requests in little memory.
type use struct{ offered, allowed uint32 }

// A window has the allowed requests of a key in the last slots.
type window struct {
	slot        use
	ring        [longSlots]uint32
	short, long int
}

// A span is a part of the run, of which the use is measured.
type span struct {
	from, until time.Duration
	tail        time.Duration // after until, in which windows count
	slots       int
	offered     []int // by key
	allowed     []int
	short, long float64 // worst overshoot, as a part of the limit
	excess      float64 // sum of overshoots of short windows
	windows     int
	steps       [steps]int
	exchanges   int
	reports     int
}

// A jump follows a leaf after its demand has grown.
type jump struct {
	Jump
	key    int32
	counts []uint32 // by slot
}

// A watched leaf's use of the first key.
type watched struct {
	leaf int
	use
}

// jumpTime is how long a jump is followed.
const jumpTime = 30 * time.Second

func (m *meter) init(s *Sim) {
	m.firsts = max(s.sc.Keys[0].Count, 1)
	m.keys, m.windows = s.keys, make([]window, len(s.keys))
	m.addSpan(0, s.sc.Duration, 0)
	m.addSpan(s.sc.Warmup, s.sc.steadyEnd(), 0)
	m.byLeaf = make([]use, len(s.keys)*len(s.leaves))
	for _, f := range s.sc.Faults {
		m.addSpan(f.At, min(f.end(), s.sc.Duration), min(10*time.Second, s.sc.Duration))
	}
	for _, l := range s.loads {
		for _, c := range l.Changes {
			if c.Leaves == 1 && c.Factor > 1 && c.At < s.sc.Duration {
				m.jumps = append(m.jumps, jump{key: l.keys[0], Jump: Jump{At: c.At, Leaf: c.First, Key: s.keys[l.keys[0]].name}})
			}
		}
	}
	for _, leaf := range s.sc.Fleet.Watch {
		m.watch = append(m.watch, watched{leaf: leaf})
	}
}

func (m *meter) addSpan(from, until, tail time.Duration) {
	m.spans = append(m.spans, span{from: from, until: until, tail: tail, offered: make([]int, len(m.keys)), allowed: make([]int, len(m.keys))})
}

// count counts a decision.
func (m *meter) count(leaf int, key int32, allowed bool, st step) {
	m.steps[st]++
	u := &m.windows[key].slot
	u.offered++
	if allowed {
		u.allowed++
	}
	if m.steady != nil {
		u := &m.byLeaf[leaf*len(m.keys)+int(key)]
		u.offered++
		if allowed {
			u.allowed++
		}
	}
	for i := range m.jumps {
		if j := &m.jumps[i]; allowed && j.Leaf == leaf && j.key == key && len(j.counts) > 0 {
			j.counts[len(j.counts)-1]++
		}
	}
	if key == 0 {
		for i := range m.watch {
			if w := &m.watch[i]; w.leaf == leaf {
				w.offered++
				if allowed {
					w.allowed++
				}
			}
		}
	}
}

// endSlot ends a slot at the instant now of s.
func (m *meter) endSlot(s *Sim) {
	begin := s.now - slot
	for k := range m.windows {
		w, limit := &m.windows[k], m.keys[k]
		place := m.slots % longSlots
		w.long += int(w.slot.allowed) - int(w.ring[place])
		w.short += int(w.slot.allowed) - int(w.ring[(m.slots+longSlots-shortSlots)%longSlots])
		w.ring[place] = w.slot.allowed
		short := over(w.short, limit, time.Second)
		long := over(w.long, limit, 10*time.Second)
		m.short, m.long = max(m.short, short), max(m.long, long)
		for i := range m.spans {
			m.spans[i].add(begin, k, w.slot, short, long)
		}
		m.offered += int(w.slot.offered)
		m.allowed += int(w.slot.allowed)
		if k < m.firsts {
			m.first.offered += int(w.slot.offered)
			m.first.allowed += int(w.slot.allowed)
		}
		w.slot = use{}
	}
	m.slots++
	m.endSpans(s, begin)
	m.follow(s)
	if s.now-m.stepAt >= s.sc.Step || s.now >= s.sc.Duration {
		m.endStep(s)
	}
}

// over returns by what part of the limit's refill a window exceeds what the limit allows
// in any window: burst + refill.
func over(allowed int, l limited, d time.Duration) float64 {
	if l.rate == 0 {
		return 0
	}
	refill := l.rate * d.Seconds()
	return max((float64(allowed)-l.burst)/refill-1, 0)
}

// add adds a slot of a key.
func (sp *span) add(begin time.Duration, key int, u use, short, long float64) {
	if begin < sp.from || begin >= sp.until+sp.tail {
		return
	}
	sp.short, sp.long = max(sp.short, short), max(sp.long, long)
	sp.excess += short
	sp.windows++
	if begin < sp.until {
		sp.offered[key] += int(u.offered)
		sp.allowed[key] += int(u.allowed)
	}
}

// endSpans counts the slot in the spans, and finds out whether the next one is in the
// steady one.
func (m *meter) endSpans(s *Sim, begin time.Duration) {
	for i := range m.spans {
		if sp := &m.spans[i]; begin >= sp.from && begin < sp.until {
			sp.slots++
			sp.exchanges += m.exchanges - m.wasExchanges
			sp.reports += m.reports - m.wasReports
			for st, n := range m.steps {
				sp.steps[st] += n
			}
		}
	}
	for st, n := range m.steps {
		m.stepCounts[st] += n
		m.steps[st] = 0
	}
	m.wasExchanges, m.wasReports = m.exchanges, m.reports
	m.steady = nil
	if sp := &m.spans[1]; s.now >= sp.from && s.now < sp.until {
		m.steady = sp
	}
}

// follow begins and ends slots of jumps.
func (m *meter) follow(s *Sim) {
	for i := range m.jumps {
		j := &m.jumps[i]
		switch {
		case s.now <= j.At || s.now > j.At+jumpTime:
			continue
		case j.counts == nil:
			j.Share = s.shares(j.key)[j.Leaf]
		}
		j.counts = append(j.counts, 0)
	}
}

// endStep ends a step of the series.
func (m *meter) endStep(s *Sim) {
	dt := (s.now - m.stepAt).Seconds()
	st := Step{
		At: s.now, Offered: float64(m.offered) / dt, Allowed: float64(m.allowed) / dt,
		First: Rates{float64(m.first.offered) / dt, float64(m.first.allowed) / dt},
		Short: m.short, Long: m.long,
		Exchanges: float64(m.exchanges) / dt, Reports: float64(m.reports) / dt, Failures: float64(m.failures) / dt, Asks: float64(m.asks) / dt,
		Decisions: map[string]float64{},
	}
	for i, n := range m.stepCounts {
		if n > 0 {
			st.Decisions[Steps[i]] = float64(n) / dt
		}
	}
	for i := range m.watch {
		w := &m.watch[i]
		p := Watched{Rates: Rates{float64(w.offered) / dt, float64(w.allowed) / dt}, Fair: s.shares(0)[w.leaf]}
		if n := s.leaves[w.leaf].node; n != nil {
			if rate := n.rate(); !math.IsNaN(rate) {
				p.Share = &rate
			}
		}
		st.Watch = append(st.Watch, p)
		w.use = use{}
	}
	for i := range s.leaves {
		if s.leaves[i].node != nil {
			st.Leaves++
		}
	}
	m.series = append(m.series, st)
	m.stepAt, m.stepCounts, m.first = s.now, [steps]int{}, counts{}
	m.offered, m.allowed, m.short, m.long = 0, 0, 0, 0
	m.asks = 0
	m.exchanges, m.reports, m.failures, m.wasExchanges, m.wasReports = 0, 0, 0, 0, 0
}
