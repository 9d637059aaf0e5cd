package ring

import (
	"maps"
	"slices"
)

// A Change is a change of the status of a member, or of the quorum if Member is empty.
type Change struct {
	Member string
	// Gone says that the member is not listed any more, and Known that it was known before.
	Gone, Known bool
	Was, Status Status
	Quorum      bool
	Members     int // that count
}

// reportLocked queues calls of OnChange.
func (r *Ring) reportLocked(was, next *view) {
	send := func(c Change) {
		c.Quorum, c.Members = next.quorum, next.members
		select {
		case r.tells <- c:
		default:
		}
	}
	names := slices.Sorted(maps.Keys(next.status))
	for _, name := range names {
		old, known := was.status[name]
		if status := next.status[name]; !known || old != status {
			send(Change{Member: name, Known: known, Was: old, Status: status})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.status)) {
		if _, still := next.status[name]; !still {
			send(Change{Member: name, Gone: true, Known: true, Was: was.status[name]})
		}
	}
	if was.quorum != next.quorum {
		send(Change{})
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
