package allocator

import "math"

const (
	// deviation is the headroom of a leaf that gets all it wants, in square roots of that: about
	// the standard deviation of a rate that is measured over 5 seconds.
	deviation = 0.3
	// spare bounds the headroom of all leaves, as a part of what the others get.
	spare = 0.01
	// grow is the part of the rest that is assigned while all leaves get what they want.
	grow = 0.5
	// hungry is how many times its share a leaf must want to need little burst.
	hungry = 1.25
	// hungryBurst and hungryTime are the burst that such a leaf with a weight of 1 needs: the greater one.
	hungryBurst = 8.0  // tokens
	hungryTime  = 0.02 // seconds of its rate
	// needed is the burst that any other leaf needs, for a root.
	needed = 16.0
)

// A level says how the limit is shared at an instant.
type level struct {
	all   sums
	rate  float64 // that is shared: the limit without what is reserved
	level float64 // infinite if all get what they want

	bonus float64 // rate for a root of a leaf that gets all it wants
	rest  float64 // rate for a weight, while all get what they want

	most        float64 // level up to which a leaf needs burst by its root
	rootBurst   float64 // burst for a root of these leaves
	rateBurst   float64 // burst for a rate, in seconds: of all leaves
	hungryBurst float64 // the same, and only for other leaves
}

// level returns how the limit is shared.
func (a *Allocator) level() level {
	l := level{all: a.wants.all(), rate: max(a.limit.Rate-a.kept.Rate, 0)}
	burst := max(a.limit.Burst-a.kept.Burst, 0)
	var below sums
	l.level, below = a.wants.level(l.all, l.rate)
	left := max(l.rate-below.wants, 0)
	room := deviation * below.roots
	if math.IsInf(l.level, 1) {
		room = min(room, spare*l.rate, left)
		l.rest = grow * (left - room) / (l.all.weight + 1)
	} else if room = min(room, spare*left); room > 0 {
		if level, still := a.wants.level(l.all, l.rate-room); still.roots > 0 {
			l.level, below = level, still
		} else {
			room = 0
		}
	}
	if below.roots > 0 {
		l.bonus = min(room/below.roots, deviation) // some may not be below any more
	}
	l.setBurst(a, burst)
	return l
}

// setBurst shares the burst out.
func (l *level) setBurst(a *Allocator, burst float64) {
	if l.rate > 0 {
		l.rateBurst = burst / l.rate
	}
	if math.IsInf(l.level, 1) {
		if l.most = l.level; l.all.roots > 0 {
			l.rateBurst /= 2
			l.rootBurst = burst / 2 / l.all.roots
		}
		return
	}
	l.most = hungry * l.level
	need := a.wants.while(func(level float64, _ sums) bool { return level <= l.most })
	if need.roots == 0 || l.level == 0 {
		return
	}
	l.hungryBurst = min(l.rateBurst, max(hungryBurst/l.level, hungryTime))
	left := max(burst-l.hungryBurst*l.level*(l.all.weight-need.weight), 0)
	l.rootBurst = min(needed, left/need.roots)
	l.rateBurst = max(left-l.rootBurst*need.roots, 0) / l.rate
}

// share returns the max-min fair share of a member. If all leaves get what they want, it includes
// the member's part of the rest.
func (l *level) share(m *Member) float64 {
	if m.level <= l.level {
		return m.wants() + l.bonus*m.root() + l.rest*m.weight
	}
	return m.weight * l.level
}

// burst returns the part of the burst of a member with a rate.
func (l *level) burst(m *Member, rate float64) float64 {
	if m.level <= l.most {
		return l.rateBurst*rate + l.rootBurst*m.root()
	}
	return (l.rateBurst + l.hungryBurst) * rate
}

// lessBurst is the part of its burst below which a member is short.
const lessBurst = 0.7

// lacksBurst reports whether a member has less burst than its part, because others still have it.
func (l *level) lacksBurst(m *Member) bool {
	return m.burst < lessBurst*l.burst(m, m.rate)
}

// strayBurst reports whether a member has more burst than its part.
func (l *level) strayBurst(m *Member) bool {
	return m.heldBurst > l.burst(m, m.rate)*(1+1e-9)
}

// learnt sets the bursts while the allocator learns: in proportion to the rates that leaves say they
// have, because it does not know yet what all of them want.
func (l *level) learnt(limit Limit) {
	l.most, l.rootBurst, l.hungryBurst, l.rateBurst = math.Inf(1), 0, 0, 0
	if limit.Rate > 0 {
		l.rateBurst = limit.Burst / limit.Rate
	}
}

// assignBurst sets the burst of a member for a rate. confirmed tells that it uses its last
// assignment; half, that it leaves half of what is free to others.
func (a *Allocator) assignBurst(m *Member, l *level, rate float64, confirmed, half bool) {
	uses := m.heldBurst
	if confirmed {
		uses = m.burst
	}
	free := max(a.limit.Burst-(a.bursts-m.heldBurst), 0)
	if half {
		free /= 2
	}
	burst := min(l.burst(m, rate), free)
	if confirmed && math.Abs(rate-m.rate) < distinct/2 {
		burst = max(burst, min(uses, a.limit.Burst)) // a rate of 0
	}
	m.burst = burst
	a.holdBurst(m, max(burst, uses))
}

func (a *Allocator) holdBurst(m *Member, burst float64) {
	a.bursts += burst - m.heldBurst
	m.heldBurst = burst
}
