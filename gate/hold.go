package gate

import "time"

// A hold is units of abandoned work, which stay in flight until the work could
// have ended.
type hold struct {
	until     time.Duration
	n         int
	partition int
}

// holds is a binary heap: the first is over first.
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
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child].until < s[least].until {
				least = child
			}
		}
		if least == i {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*h = s
	return first
}

// hold keeps the units of an abandoned request in flight, if it could still be
// going on. As every hold has a unit at least, there are no more of them than
// units in flight.
func (g *Gate[W]) hold(start time.Duration, r Request) bool {
	until := plus(start, g.pace.lasts)
	if r.N == 0 || g.pace.lasts <= 0 || until <= g.now {
		return false
	}
	g.holds.push(hold{until, r.N, r.Partition})
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
