package limits

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// Units are the units that a request holds, of its class and, if there is one, of the total, and its place at an origin.
type Units struct {
	class, total     weir.Permit
	classIn, totalIn *pool // of the units; totalIn is nil without a total
	Place            origins.Place
}

// Move returns what ps held. It holds nothing then.
func (ps *Units) Move() Units {
	at := ps.Place
	ps.Place = origins.Place{}
	return Units{ps.class.Move(), ps.total.Move(), ps.classIn, ps.totalIn, at}
}

// Release, Report and Use do what they do for a weir.Permit.
func (ps *Units) Release(o weir.Outcome) {
	ps.total.Release(o)
	ps.class.Release(o)
}

func (ps *Units) Report(o weir.Outcome) {
	ps.total.Report(o)
	ps.class.Report(o)
}

func (ps *Units) Use(n int) {
	ps.total.Use(n)
	ps.class.Use(n)
}

// ServedCount returns how many requests the limit of the class has served.
func (ps *Units) ServedCount() uint64 { return ps.classIn.served.Load() }

// UsualDuration returns the duration within which ordinary work of the class ends.
func (ps *Units) UsualDuration() time.Duration { return ps.classIn.usualDuration() }

// CountHolder counts a forward that holds the units from now on, or with -1 does not any more. It returns how many do.
func (ps *Units) CountHolder(n int64) int64 { return ps.classIn.holding.Add(n) }

// CountServed counts a request that has succeeded.
func (ps *Units) CountServed() {
	ps.classIn.served.Add(1)
	if ps.totalIn != nil {
		ps.totalIn.served.Add(1)
	}
}

// AreUsedUp reports whether a limit of the request is reached.
func (ps *Units) AreUsedUp() bool {
	return ps.classIn.isUsedUp() || ps.totalIn != nil && ps.totalIn.isUsedUp()
}

// Relieve reports whether the forward is to leave a limit by relief.
func (ps *Units) Relieve(now time.Duration) bool {
	return ps.classIn.relieve(now) || ps.totalIn != nil && ps.totalIn.relieve(now)
}
