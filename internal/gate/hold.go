package gate

import "time"

// A hold is units of abandoned work, which stay in flight until the work has
// probably ended.
type hold struct {
	start     time.Duration // of the work
	age       time.Duration // of the work when it was abandoned
	until     time.Duration
	n         int
	partition int
}

// holds is a binary heap: the first ends first.
type holds []hold

func (h *holds) push(x hold) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].until <= s[i].until {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *holds) pop() hold {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	s.sink(0)
	*h = s
	return first
}

func (h holds) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].until < h[least].until {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// lasts estimates how long work lasts, from its start, that was abandoned at an
// age: as long as work lasts on average that reaches this age. If no success did,
// it is an outlier, and how long it lasts is not known: as long as is usual at
// most. 0 if nothing is known.
//
// The mean keeps the count of units in flight right on average. Work that its
// callers leave early, at any age, counts for no more than its share, and work
// that is late counts for longer. A single caller that waits for ten minutes
// changes next to nothing.
//
// If so much is abandoned that nothing succeeds, there may be a queue of it that
// nobody sees, and how long work takes there is not known: the bound then is two, and
// later four times as high.
func (h *durations) lasts(age time.Duration) time.Duration {
	return h.beyond(age, h.usual()<<min(h.inRow/hopeless, 2))
}

const hopeless = 128 // work that was abandoned in a row

// usual returns how long successful work takes at most, as a rule; 0 if nothing
// is known.
func (h *durations) usual() time.Duration { return 2 * h.p99() }

// Usual returns how long successful work takes at most, as a rule: twice its 99th
// percentile, of recent work; 0 if nothing is known.
func (g *Gate[W]) Usual() time.Duration { return g.pace.took.usual() }

// hold keeps the units of an abandoned request in flight, if it could still be
// going on. As every hold has a unit at least, there are no more of them than
// units in flight.
func (g *Gate[W]) hold(start time.Duration, r Request) bool {
	age := g.now - start
	g.pace.took.addAbandoned(age)
	until := plus(start, g.pace.took.lasts(age))
	if r.N == 0 || until <= g.now {
		return false
	}
	if len(g.holds) == 0 {
		g.review()
	}
	g.holds.push(hold{start, age, until, r.N, r.Partition})
	g.stats.Held += r.N
	return true
}

// unhold ends the holds that are over.
func (g *Gate[W]) unhold(now time.Duration) {
	for len(g.holds) > 0 && g.holds[0].until <= now {
		h := g.holds.pop()
		g.stats.Held -= h.n
		g.release(h.n, h.partition)
		g.pace.freed(now, h.n, g.line.len > 0)
	}
}

// A review happens after reviewAfter samples, or after reviewShare of the samples
// that are known, if that is less.
const (
	reviewAfter = 16
	reviewShare = 1.0 / 16
)

// reviewSoon counts a success, and reviews the holds if there were enough since
// the last review.
func (g *Gate[W]) reviewSoon() {
	g.unreviewed++
	if known := g.pace.took.all; g.unreviewed >= reviewAfter || float32(g.unreviewed) >= known*reviewShare {
		g.review()
	}
}

// review shortens the holds if work has become faster by an eighth, or more,
// since the last time that it did. It costs as much as there are holds, but the
// work has to become slower in between, or faster again.
func (g *Gate[W]) review() {
	g.unreviewed = 0
	p99 := g.pace.took.p99()
	if p99 >= g.reviewed-g.reviewed/8 {
		g.reviewed = max(g.reviewed, p99)
		if len(g.holds) == 0 {
			g.reviewed = p99
		}
		return
	}
	g.reviewed = p99
	for i := range g.holds {
		h := &g.holds[i]
		h.until = min(h.until, plus(h.start, g.pace.took.lasts(h.age)))
	}
	for i := len(g.holds)/2 - 1; i >= 0; i-- {
		g.holds.sink(i)
	}
}
