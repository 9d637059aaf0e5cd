package ring

import (
	"maps"
	"slices"

	"github.com/weir-go/weir/service/internal/ring/census"
)

// A Change is a change of the status or the list of a member, or of the quorum if Member is empty.
type Change struct {
	Member string
	// Gone says that the member is not listed any more, and Known that it was known before.
	Gone, Known bool
	Was, Status census.Status
	Quorum      bool
	Members     int // that count
	// Lists, if not nil, says that nothing else has changed, but how the list of Member differs. It is empty if that is the
	// same again.
	Lists *census.Difference
}

// reportLocked queues calls of OnChange.
func (r *Ring) reportLocked(was, next *view) {
	send := func(c Change) {
		c.Quorum, c.Members = next.Quorum, next.Members
		r.send(c)
	}
	names := slices.Sorted(maps.Keys(next.Status))
	for _, name := range names {
		old, known := was.Status[name]
		if status := next.Status[name]; !known || old != status {
			send(Change{Member: name, Known: known, Was: old, Status: status})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Status)) {
		if _, still := next.Status[name]; !still {
			send(Change{Member: name, Gone: true, Known: true, Was: was.Status[name]})
		}
	}
	if was.Quorum != next.Quorum {
		send(Change{})
	}
}

// reportListsLocked queues calls of OnChange about lists that differ.
func (r *Ring) reportListsLocked(next []census.Difference) {
	was := r.differs
	r.differs = next
	for _, d := range census.Changed(was, next) {
		r.send(Change{Member: d.Member, Lists: &d})
	}
}

// send queues a call of OnChange.
func (r *Ring) send(c Change) {
	select {
	case r.tells <- c:
	default:
	}
}

// tell calls OnChange.
func (r *Ring) tell() {
	for {
		select {
		case c := <-r.tells:
			if r.cfg.OnChange != nil {
				r.cfg.OnChange(c)
			}
		case <-r.ctx.Done():
			return
		}
	}
}
