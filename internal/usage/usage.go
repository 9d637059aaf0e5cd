// Package usage remembers when tokens were taken from a token bucket, so that a settlement
// returns as many as are missing because of them.
//
// A bucket that is full does not refill. If a request took more tokens than its work cost, a
// bucket from which only the cost was taken would have been full earlier, and would have
// missed refill that the actual bucket got. The level of that bucket follows from the takes
// since the grant:
//
//	missing = max over all takes k of: tokens taken since k, k included, less those refilled since k
//
// If the size of the bucket changes, so does what is missing from it.
//
// A Log keeps takes in groups. If a take is settled after others of its group, all takes of the group
// can count as made at the last one. So a settlement never returns too much, and too little by
// at most the refill in the span of a group.
package usage

import (
	"math"
	"time"
)

// Grain is the precision of the instants of grants. No group begins in the grain in which another
// ends, unless the size of the bucket has changed.
const Grain = time.Millisecond

// Never is the instant of a take that has not happened.
const Never time.Duration = math.MinInt64

// A Log remembers the takes of one bucket. The zero Log has none, of a bucket that was not used
// before. It is not safe for concurrent use.
type Log struct {
	groups []group
	used   bool          // before is set
	before time.Duration // of the last take that is in no group
}

// A group is takes that follow each other.
type group struct {
	first, last time.Duration
	came        float64 // tokens refilled since the epoch, at last
	size        float64 // of the bucket
	n           float64 // tokens taken
	missing     float64 // tokens that a bucket lacks at last which was full before the group
	recent      float64 // tokens taken in the grain of last
}

// Groups says how a Log groups takes: those in a Span are a group, and there are at most Most.
type Groups struct {
	Span time.Duration
	Most int
}

// GroupsFor returns the groups of a bucket that fills in a time. There are n in that time, and
// they last for twice the time.
func GroupsFor(fill time.Duration, n int) Groups {
	return Groups{Span: min(max(fill/time.Duration(n), Grain), time.Hour), Most: 2 * n}
}

// An Instant is a time on the clock of the bucket's owner, with the refill and the size of the bucket
// at that time.
type Instant struct {
	At   time.Duration
	Came float64 // tokens refilled since an epoch, also those for which there was no room
	Size float64 // tokens of a full bucket
}

// Start forgets all takes. The last of them, if there was any, was at the instant before.
func (l *Log) Start(before time.Duration) {
	l.groups, l.used, l.before = l.groups[:0], before != Never, before
}

// Last returns the instant of the last take, or Never.
func (l *Log) Last() time.Duration {
	switch {
	case len(l.groups) > 0:
		return l.groups[len(l.groups)-1].last
	case l.used:
		return l.before
	}
	return Never
}

// Size returns the number of groups that the Log has room for.
func (l *Log) Size() int { return cap(l.groups) }

// Take notes that n tokens were taken; none if the size of the bucket has changed. Full says that
// the bucket was full before: then no earlier take matters.
func (l *Log) Take(now Instant, n float64, full bool, by Groups) {
	if last := l.Last(); full && (last == Never || grain(now.At) > grain(last)) {
		l.Start(Never)
	}
	if len(l.groups) > 0 {
		g := &l.groups[len(l.groups)-1]
		if g.size == now.Size && (now.At-g.first <= by.Span || grain(now.At) <= grain(g.last)) {
			g.n += n
			if grain(now.At) > grain(g.last) {
				g.recent = 0
			}
			if now.At > g.last {
				g.missing = max(g.missing-(now.Came-g.came), 0)
				g.last, g.came = now.At, now.Came
			}
			g.missing, g.recent = g.missing+n, g.recent+n
			return
		}
	}
	if more := len(l.groups) + 1 - by.Most; more > 0 {
		l.used, l.before = true, l.groups[more-1].last
		l.groups = l.groups[:copy(l.groups, l.groups[more:])]
	}
	l.groups = append(l.groups, group{now.At, now.At, now.Came, now.Size, n, n, n})
}

// A Settlement says that work cost N tokens instead of the Was tokens that were taken for it,
// which are more.
type Settlement struct {
	Was, N float64
	// At is when the tokens were taken, to within a Grain.
	At time.Duration
	// Missing is how many tokens the bucket lacks now.
	Missing float64
	// Rate is the greatest rate since the tokens were taken, in tokens a nanosecond.
	Rate float64
}

// Settle returns the tokens to return to the bucket, and what the work has cost then: N, or
// more if too little is known of the takes since.
func (l *Log) Settle(now Instant, s Settlement) (back, charged float64) {
	d := s.Was - s.N
	from := l.find(grain(s.At))
	if from >= 0 {
		l.groups[from].settle(grain(s.At), s.Was, d)
	} else {
		from = 0
		d = max(d-l.unknown(&s), 0)
	}
	missing, taken := max(s.Missing-d, 0), 0.0
	for i := len(l.groups) - 1; i >= from; i-- {
		g := &l.groups[i]
		missing = max(missing, now.Size-g.size+taken+g.missing-(now.Came-g.came))
		taken += g.n
	}
	return max(s.Missing-missing, 0), s.Was - d
}

// settle gives back d of the tokens that were taken at once in a grain. The takes before, and
// after, are not known.
func (g *group) settle(at time.Duration, was, d float64) {
	g.n -= d
	if at == grain(g.last) { // only takes of the same grain came after it
		g.missing = min(g.missing, max(g.missing-d, g.recent-was))
		g.recent -= d
	}
	g.missing = min(g.missing, g.n)
}

// unknown returns the tokens that a bucket from which the cost alone was taken may have missed
// while it was full, before the first group.
func (l *Log) unknown(s *Settlement) float64 {
	if !l.used || l.before <= s.At {
		return 0
	}
	return max(float64(l.before-grain(s.At))*s.Rate-s.N, 0)
}

// find returns the index of the group with the take of a grain, or -1. If it can be in several,
// the first of them makes sure that not too much is returned.
func (l *Log) find(at time.Duration) int {
	i := len(l.groups) - 1
	for i >= 0 && (grain(l.groups[i].first) > at || i > 0 && grain(l.groups[i-1].last) >= at) {
		i--
	}
	return i
}

func grain(t time.Duration) time.Duration { return t.Truncate(Grain) }
