package allocator

import (
	"math"
	"time"
)

// A Session is the lease of a leaf on its assignments in all Allocators. The zero Session
// has ended, but does not end an assignment before its own time to live is over.
type Session struct {
	// Share tells that the leaf goes on with the limit divided by the number of leaves after its assignments
	// have ended: see ReserveSharing.
	Share bool

	until time.Duration
	over  bool
}

// Renew extends the session: assignments of its members do not end before the instant,
// unless there is no report about them for Config.Silence.
func (s *Session) Renew(until time.Duration) { s.until = max(s.until, until) }

// Until returns when the session ends.
func (s *Session) Until() time.Duration { return s.until }

// End ends the session and all assignments of its members. The leaf must have stopped using
// them. Allocators notice it when they look at these assignments the next time:
// call Member.Leave to give their rates to others at once.
func (s *Session) End() { s.over = true }

// Over reports whether End was called.
func (s *Session) Over() bool { return s.over }

// distinct is the least difference, in tokens a second, of two rates that a leaf reports as different
// ones. Messages may round rates down to millionths.
const distinct = 4e-6

// A Member is a leaf in one Allocator. A new Member joins with its first report.
type Member struct {
	// Session, if not nil, extends the assignment. While the Member has one, it may change only to the Session of a leaf that
	// has taken the assignment over.
	Session *Session
	// Owner is for the caller: the Allocator does not use it.
	Owner any

	in        *Allocator    // nil if it has no assignment, and nothing is kept for it
	held      float64       // the highest rate that it may be using
	heldBurst float64       // the greatest burst that it may be using
	rate      float64       // the rate of its last assignment
	burst     float64       // the burst of its last assignment
	reported  time.Duration // when
	check     time.Duration // when Expire next looks whether the assignment has ended
	lost      time.Duration // when its session ended
	until     time.Duration // when the reserved part of the limit is free again
	lack      float64       // how much of its share it lacks; 0 unless it is starved
	at        int32         // its index in the heap
	short     bool          // as Assignment.Short
	guess     bool          // it was adopted, and may have another assignment than held: see Adopt
	reserved  bool          // its session has ended, and a part of the limit is kept for it
	demand                  // not counted while reserved is set
}

// Live reports whether the Member has an assignment.
func (m *Member) Live() bool { return m.in != nil }

// Rate returns the rate of the last assignment; 0 without one.
func (m *Member) Rate() float64 { return m.rate }

// Wants returns the rate that the member wants.
func (m *Member) Wants() float64 { return m.wants() }

// Reported returns the instant of the last report.
func (m *Member) Reported() time.Duration { return m.reported }

// Held returns the most that the member may be using.
func (m *Member) Held() float64 { return m.held }

// HeldBurst returns the greatest burst that the member may be using.
func (m *Member) HeldBurst() float64 { return m.heldBurst }

// Leave gives the assignment back. The leaf must have stopped using it. Without one, Leave
// does nothing.
func (m *Member) Leave(now time.Duration) {
	if a := m.in; a != nil {
		a.drop(m)
		level := a.level()
		a.contend(now, nil, &level)
	}
}

// Look takes the assignment back if it has ended. See Config.Looks.
func (m *Member) Look(now time.Duration) {
	if a := m.in; a != nil {
		if m.check > now {
			m.check, a.check = now, min(a.check, now)
			a.expiry.Fix(int(m.at))
		}
		a.Expire(now)
	}
}

// next returns when Expire looks at an assignment that has not ended: at the end, unless Look tells
// the end of the session.
func (m *Member) next(now, end time.Duration) time.Duration {
	if s := m.Session; m.in.cfg.Looks && s != nil && !s.over && s.until > now {
		return m.silent()
	}
	return end
}

// silent returns when the assignment ends if there is no report until then.
func (m *Member) silent() time.Duration {
	cfg := m.in.cfg
	if cfg.Silence == 0 {
		return m.reported + 4*cfg.TTL
	}
	return m.reported + max(cfg.Silence, cfg.TTL)
}

// ends returns when the assignment ends.
func (m *Member) ends() time.Duration {
	until, s := m.reported+m.in.cfg.TTL, m.Session
	switch {
	case s == nil:
		return until
	case s.over:
		return math.MinInt64
	case m.reserved:
		return m.until
	}
	return max(until, min(s.until, m.silent()))
}
