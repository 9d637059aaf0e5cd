package allocator

import (
	"math"
	"time"
)

// A Had tells what a leaf had of a limit when its last Allocator was asked.
type Had struct {
	Limit               // the most that it might be using
	Wants float64       // Report.Wants
	At    time.Duration // when it was reported
	// Guess says that it may have another assignment by now. Before Config.Learn, what other leaves say they have comes first.
	Guess bool
}

// Adopt has a new Member join with what it had. That stays taken until a report, or until the assignment ends.
func (a *Allocator) Adopt(m *Member, had Had) {
	a.enter(had.At, m, Report{Wants: had.Wants, Weight: 1})
	a.setGuess(m, had.Guess)
	a.has(m, had.Limit)
}

// Continue takes a report of a Member, which joins if it is new, that goes on with what it has: an assignment of which
// only a least rate is known, of another Allocator or of the member that it was before.
func (a *Allocator) Continue(now time.Duration, m *Member, r Report) error {
	if !valid(r.Wants) || !valid(r.Has) {
		return ErrReport
	}
	a.Expire(now)
	a.enter(now, m, Report{Wants: r.Wants, Weight: 1})
	has := Limit{Rate: max(m.held, min(r.Has, a.limit.Rate)), Burst: m.heldBurst}
	if a.limit.Rate > 0 {
		has.Burst = max(has.Burst, a.limit.Burst*min(has.Rate/a.limit.Rate, 1))
	}
	a.has(m, has)
	level := a.level()
	a.contend(now, m, &level)
	return nil
}

// has sets what a member has.
func (a *Allocator) has(m *Member, l Limit) {
	a.hold(m, math.Ceil(l.Rate/a.quantum)*a.quantum)
	a.holdBurst(m, l.Burst)
	m.rate, m.burst = m.held, m.heldBurst
	a.setShort(m, false)
	a.setLack(m, 0, 0)
}

func (a *Allocator) setGuess(m *Member, guess bool) {
	switch {
	case guess && !m.guess:
		a.guessed += m.held
	case m.guess && !guess:
		a.guessed -= m.held
	}
	m.guess = guess
}
