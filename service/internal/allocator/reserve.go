package allocator

import (
	"math"
	"time"
)

// reservation is what is kept for lost members.
type reservation struct {
	off  bool  // nothing is kept
	kept Limit // sums
}

// SetReserves selects whether a part of the limit is kept for leaves that are lost: see
// Config.Reserve. A new Allocator does it.
func (a *Allocator) SetReserves(on bool) { a.off = !on }

// look returns when Expire looks at a member again: not after now if the member ends.
func (a *Allocator) look(now time.Duration, m *Member) time.Duration {
	end := m.ends()
	switch {
	case m.reserved && end > now:
		if m.Session.until > m.lost { // The leaf is back. It has a time to live to report the member.
			m.lost, m.until = math.MaxInt64, min(m.until, now+a.cfg.TTL)
		}
		return min(m.until, now+a.cfg.TTL)
	case end > now || m.reserved || !a.loses(now, m):
		return end
	}
	a.setShort(m, false)
	a.wants.remove(m.demand)
	part := 1 / float64(m.leaves)
	m.reserved, m.lost, m.until, m.rate = true, m.Session.until, m.Session.until+a.cfg.Reserve, 0
	a.hold(m, min(m.held, math.Floor(a.limit.Rate*part/a.quantum)*a.quantum))
	a.holdBurst(m, min(m.heldBurst, a.limit.Burst*part))
	a.kept.Rate += m.held
	a.kept.Burst += m.heldBurst
	return min(m.until, now+a.cfg.TTL)
}

// loses reports whether a member whose assignment has ended is lost, and something is kept for it.
func (a *Allocator) loses(now time.Duration, m *Member) bool {
	s := m.Session
	return a.cfg.Reserve > 0 && !a.off && s != nil && !s.over && s.until > 0 && s.until <= now && m.held > 0
}

// unreserve ends what is kept for a member. It still holds that.
func (a *Allocator) unreserve(m *Member) {
	m.reserved = false
	a.kept.Rate -= m.held
	a.kept.Burst -= m.heldBurst
}
