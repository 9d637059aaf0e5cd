package allocator

import (
	"math"
	"time"
)

// Reserves selects the lost leaves for which a part of the limit is kept.
type Reserves uint8

const (
	ReserveAll     Reserves = iota // all
	ReserveSharing                 // those with Session.Share
	ReserveNone
)

// A reservation counts the parts of the limit that are kept for lost members.
type reservation struct {
	reserves Reserves
	lost     int   // members for which something is kept
	kept     Limit // sums
}

// SetReserves selects for which lost leaves a part of the limit is kept: see Config.Reserve. A new Allocator
// has ReserveAll.
func (a *Allocator) SetReserves(r Reserves) { a.reserves = r }

// look returns when Expire looks at a member again: not after now if the member ends.
func (a *Allocator) look(now time.Duration, m *Member) time.Duration {
	end := m.ends()
	switch {
	case m.reserved && end > now:
		if m.Session.until > m.lost { // The leaf is back. It has a time to live to report the member.
			m.lost, m.until = math.MaxInt64, min(m.until, now+a.cfg.TTL)
		}
		a.keep(m)
		return min(m.until, now+a.cfg.TTL)
	case end > now:
		return m.next(now, end)
	case m.reserved || !a.loses(now, m):
		return end
	}
	a.setShort(m, false)
	a.setLack(m, 0, 0)
	a.wants.remove(m.demand)
	m.reserved, m.lost, m.until, m.rate = true, m.Session.until, m.Session.until+a.cfg.Reserve, 0
	a.lost++
	a.kept.Rate += m.held
	a.kept.Burst += m.heldBurst
	a.keep(m)
	return min(m.until, now+a.cfg.TTL)
}

// keep keeps what a lost member had, but not more than the limit divided by the members.
func (a *Allocator) keep(m *Member) {
	part, was := 1/float64(a.expiry.Len()), Limit{m.held, m.heldBurst}
	a.hold(m, min(m.held, math.Floor(a.limit.Rate*part/a.quantum)*a.quantum))
	a.holdBurst(m, min(m.heldBurst, a.limit.Burst*part))
	a.kept.Rate -= was.Rate - m.held
	a.kept.Burst -= was.Burst - m.heldBurst
}

// maxKept bounds the members of which all are looked at when one joins.
const maxKept = 64

// joined makes room for a new member, of what is kept for others. Among many members, that takes
// until they are looked at.
func (a *Allocator) joined() {
	if a.lost == 0 || a.expiry.Len() > maxKept {
		return
	}
	for _, m := range a.expiry.Items() {
		if m.reserved {
			a.keep(m)
		}
	}
}

// loses reports whether a member is lost after the end of its assignment, and something is kept for it.
func (a *Allocator) loses(now time.Duration, m *Member) bool {
	s := m.Session
	if s == nil || a.reserves == ReserveNone || a.reserves == ReserveSharing && !s.Share {
		return false
	}
	return a.cfg.Reserve > 0 && !s.over && s.until > 0 && s.until <= now && m.held > 0
}

// unreserve ends what is kept for a member. It still holds that.
func (a *Allocator) unreserve(m *Member) {
	m.reserved = false
	a.lost--
	a.kept.Rate -= m.held
	a.kept.Burst -= m.heldBurst
}
