package weir

import (
	"time"

	"github.com/weir-go/weir/internal/neterr"
)

// An Outcome says how admitted work went, as far as load is concerned. Callers
// choose between Ignored, Success and Dropped. Other values come from
// OutcomeOf and Permit.Abandon: they are variants that String names.
type Outcome uint8

const (
	Ignored Outcome = iota // says nothing about load: a bad request, a caller that left, a bug
	Success                // done, in time
	Dropped                // failed because of load: rejected further down, connection refused, timed out

	// The variants; internal/outcome exports them to this module.
	timedOut // Dropped: the caller's time ran out, and the work may be going on
	left     // Ignored: the caller left, and the work may be going on
	late     // Dropped: the work ended after the caller's time had run out
	gone     // Ignored: the work ended after the caller had left
)

var outcomes = [...]string{"ignored", "success", "dropped", "timed_out", "left", "late", "gone"}

// String returns the outcome as metrics and logs spell it.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return "ignored"
}

// A Permit holds the units of one Acquire while the caller works. The zero
// Permit holds nothing; releasing it does nothing.
//
// A Permit is used by one goroutine at a time. Do not copy a Permit that is
// held: each copy could give back the same units. Move passes it on, and "go vet"
// reports copies.
type Permit struct {
	_     noCopy
	owner *Owner
	grant Grant
}

// A noCopy has the methods by which vet's copylocks check knows what not to copy.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Move returns a Permit that holds what p held. p holds nothing then, so that its
// Release does nothing.
func (p *Permit) Move() Permit {
	owner := p.owner
	p.owner = nil
	return Permit{owner: owner, grant: p.grant}
}

// Release gives the units back and tells the limiter how the work went. The
// first call counts; later ones do nothing.
//
// Release when the work has ended, not when its caller has stopped waiting:
// abandoned work loads the resource all the same.
func (p *Permit) Release(o Outcome) {
	if p.owner == nil {
		return
	}
	owner := p.owner
	p.owner = nil
	(*owner).Release(p.grant, o)
}

// Abandon is Release for a call that returned with an error while the service
// that was called may go on working, because a deadline was missed, of the
// context or of I/O, or the context was cancelled. A concurrency limiter then
// keeps the units in flight until the work could have ended. With any other
// error, or none, it is Release(OutcomeOf(err)).
func (p *Permit) Abandon(err error) {
	o := OutcomeOf(err)
	switch {
	case o == late, o == Dropped && neterr.TimedOut(err):
		o = timedOut
	case o == Ignored && isCancelled(err):
		o = left
	}
	p.Release(o)
}

// Report tells the limiter how the work went while its units stay held, for
// example because the answer is known but its body is still being sent. The
// latency that the limiter learns ends here. Release with the same Outcome
// follows. A limiter that learns nothing before the release ignores Report.
func (p *Permit) Report(o Outcome) {
	if p.owner == nil {
		return
	}
	if r, ok := (*p.owner).(interface {
		Report(Grant, Outcome) Grant
	}); ok {
		p.grant = r.Report(p.grant, o)
	}
}

// Use sets the cost of the work to n units instead of the units acquired. The limiter
// charges or gives back the difference at once. Use never waits, so a limit can be
// exceeded, up to the debt that the limiter allows; the rest is not charged. After
// Release it does nothing. It panics if n < 0.
func (p *Permit) Use(n int) {
	if n < 0 {
		panic("weir: Use of a negative cost")
	}
	if p.owner == nil || n == p.grant.N {
		return
	}
	p.grant.N = (*p.owner).Use(p.grant, n)
}

// NewPermit returns a Permit that calls release when its units come back: once, with
// the outcome of the work. Implementations of Limiter call it. Use and Report of the
// Permit do nothing.
func NewPermit(release func(Outcome)) Permit {
	var owner Owner = releaser(release)
	return OwnedPermit(&owner, Grant{})
}

type releaser func(Outcome)

func (releaser) Use(_ Grant, n int) int             { return n }
func (release releaser) Release(_ Grant, o Outcome) { release(o) }

// A Grant is a limiter's note of what it granted with a Permit.
type Grant struct {
	N    int           // units held
	At   time.Duration // when, on the limiter's own clock
	Note uint64        // for the limiter's own use
}

// An Owner is the limiter that a Permit goes back to. A Permit calls Release exactly once, and
// Use only before that. Use returns the units that the Permit holds from then on: n, or fewer
// if the limiter does not charge all of them.
//
// An Owner that can learn how work went before its release also has a method
// Report(Grant, Outcome) Grant, which returns the Permit's new Grant.
type Owner interface {
	Use(g Grant, n int) (held int)
	Release(g Grant, o Outcome)
}

// OwnedPermit returns a Permit that goes back to the Owner in a variable, which must stay as it
// is: a Permit is four words, which fit into registers, and admission does not allocate.
// Limiters call it that settle costs or learn before the release. Others call NewPermit.
func OwnedPermit(owner *Owner, g Grant) Permit {
	return Permit{owner: owner, grant: g}
}
