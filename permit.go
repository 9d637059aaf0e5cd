package weir

import "time"

// An Outcome is how the permitted work went, as far as load is concerned.
type Outcome uint8

const (
	Ignored  Outcome = iota // says nothing about load: a bad request, a caller that left, a bug
	Success                 // done, in time
	Dropped                 // failed because of load: refused further down, connection refused
	TimedOut                // Dropped, because its time ran out: the work may be going on
	Left                    // Ignored, because its caller left: the work may be going on
	Late                    // Dropped, because it ended after its caller's time had run out
)

// Abandoned reports whether the work may be going on although nobody waits for
// it any more. A concurrency limiter keeps its units in flight until it could
// have ended.
func (o Outcome) Abandoned() bool { return o == TimedOut || o == Left }

func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Dropped:
		return "dropped"
	case TimedOut:
		return "timed_out"
	case Left:
		return "left"
	case Late:
		return "late"
	default:
		return "ignored"
	}
}

// A Permit is what the caller of a Limiter holds while it works. The zero
// Permit holds nothing; releasing it does nothing.
//
// A Permit is used by one goroutine at a time, and not copied while it is
// held: each copy could give back the same units.
type Permit struct {
	owner *Owner
	grant Grant
}

// Release gives the units back and tells the limiter how the work went. The
// first call counts; later ones do nothing.
//
// Release when the work has ended, not when its caller stopped waiting: work
// that nobody waits for loads the resource all the same.
func (p *Permit) Release(o Outcome) {
	if p.owner == nil {
		return
	}
	owner := p.owner
	p.owner = nil
	(*owner).Release(p.grant, o)
}

// Report tells the limiter how the work went while its units stay held: the
// answer is there, but the resource is still busy, as with the body of a download.
// What the limiter learns of latency ends here. Release follows, with the same
// Outcome. A limiter that cannot learn before the release ignores Report.
func (p *Permit) Report(o Outcome) {
	if p.owner == nil {
		return
	}
	if r, ok := (*p.owner).(Reporter); ok {
		p.grant = r.Report(p.grant, o)
	}
}

// Use says that the work costs n units instead of those acquired: the limiter
// charges or gives back the difference at once. It never waits, so a limit
// can be exceeded by it, as far as the limiter bears; what is beyond that is
// forgiven. After Release it does nothing. It panics if n < 0.
func (p *Permit) Use(n int) {
	if n < 0 {
		panic("weir: Use of a negative cost")
	}
	if p.owner == nil || n == p.grant.N {
		return
	}
	p.grant.N = (*p.owner).Use(p.grant, n)
}

// NewPermit makes a Permit. It is for those who implement a Limiter: the Owner
// is a variable that the limiter keeps. So a Permit is four words, which fit
// into registers, and admission copies none.
func NewPermit(owner *Owner, g Grant) Permit {
	return Permit{owner: owner, grant: g}
}

// A Grant is a limiter's note of what it granted, kept in the Permit.
type Grant struct {
	N    int           // units held
	At   time.Duration // when, on the limiter's own clock
	Note uint64        // whatever the limiter wants to remember
}

// A Reporter is an Owner that can learn how work went before its Release. Report
// returns the Grant that the Permit has from then on.
type Reporter interface {
	Report(g Grant, o Outcome) Grant
}

// An Owner is the limiter that a Permit goes back to. A Permit calls Release
// exactly once, and Use only before that. Use returns the units that the
// Permit holds from then on: n, or fewer if it does not charge all of them.
type Owner interface {
	Use(g Grant, n int) (held int)
	Release(g Grant, o Outcome)
}
