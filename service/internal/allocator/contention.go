package allocator

import (
	"math"
	"time"
)

const (
	// tell is the relative change of shares of which members hear.
	tell = 0.01
	// relaxed is the part of the limit below which the limit is not contended any more.
	relaxed = 0.9
	// pressEvery is how often in a time to live members with more than their shares are
	// looked for while another one is short.
	pressEvery = 30
	// starved is the part of its share below which a member comes first.
	starved = 0.9
)

// contention is the state of a limit of which more may be wanted than there is.
type contention struct {
	contended bool
	shorts    int           // members that lack a part of their share, or of their burst
	lacks     float64       // rate that starved members lack, together
	freed     float64       // rate that members have given back since the short ones heard of it
	told      float64       // level when members last heard of a change; infinite: all have what they want
	pressed   time.Duration // when members with more than their shares were last looked for
}

// contend updates the contention after a report of a member, or its end. It asks other
// members to report if their shares have changed.
func (a *Allocator) contend(now time.Duration, by *Member, l *level) {
	was := a.contended
	switch {
	case !math.IsInf(l.level, 1) || a.shorts > 0:
		a.contended = true
	case l.all.wants < relaxed*l.rate:
		a.contended = false
	}
	if now < a.cfg.Learn {
		a.told = 0 // no level: they hear of the first after this
		return
	}
	if a.shorts == 0 {
		a.freed = 0
	}
	begun := a.contended && !was
	moved := math.Abs(l.level-a.told) > tell*min(l.level, a.told)
	gave := a.freed > tell*a.limit.Rate
	press := a.shorts > 0 && now-a.pressed >= a.cfg.TTL/pressEvery
	if !begun && !moved && !gave && !press {
		return
	}
	tolerance := tell
	if moved {
		a.told = l.level
	}
	if gave || press {
		a.freed = 0
	}
	if press {
		a.pressed, tolerance = now, 0
	}
	if a.cfg.Watch == nil {
		return
	}
	for _, m := range a.expiry.Items() {
		if m != by && !m.reserved && (gave && m.short || (begun || moved || press) && a.strays(m, l, tolerance)) {
			a.cfg.Watch(m)
		}
	}
}

// strays reports whether the assignment of a member is smaller than what it should have of
// what it wants, or greater than its share while the limit is contended. So is the burst while a member is short.
func (a *Allocator) strays(m *Member, l *level, tolerance float64) bool {
	share := l.share(m)
	if m.rate < min(share, m.wants())*(1-tell) || a.contended && m.held > share*(1+max(tolerance, 1e-9)) {
		return true
	}
	return a.shorts > 0 && l.strayBurst(m)
}

func (a *Allocator) setShort(m *Member, short bool) {
	switch {
	case short && !m.short:
		a.shorts++
	case m.short && !short:
		a.shorts--
	}
	m.short = short
}

// available returns the rate that a member may have, if it uses a rate and its share is greater. Of what is
// free, starved members get what they lack first. In a large fleet, changes of many shares leave little free at
// any instant: a member that starts from nothing would get it in too many small parts.
func (a *Allocator) available(m *Member, free, share, uses float64) float64 {
	if uses < starved*share {
		return free
	}
	return max(free-(a.lacks-m.lack), min(uses, free))
}

// setLack sets what a member with a rate lacks of its share, if it is starved.
func (a *Allocator) setLack(m *Member, rate, share float64) {
	lack := 0.0
	if want := min(share, m.wants()); rate < starved*want {
		lack = math.Floor((want-rate)/a.quantum) * a.quantum
	}
	a.lacks += lack - m.lack
	m.lack = lack
}
