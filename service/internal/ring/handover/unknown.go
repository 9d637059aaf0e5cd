package handover

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

// Unknown are slots with a state that was lost with a process, or was claimed and did not come.
type Unknown struct{ lost []lost }

// A lost is slots of one process.
type lost struct {
	slots *slot.Set
	node  string        // the process, if one is known; if it is back, it has the state
	until time.Duration // when leases that it granted have expired
}

// maxUnknown bounds the sets of unknown slots. With more, the oldest are taken for known.
const maxUnknown = 64

// Note adds slots. node is the process that had their state; empty if none is known. At until, leases that it granted
// have expired.
func (u *Unknown) Note(slots *slot.Set, node string, until time.Duration) {
	u.lost = append(u.lost, lost{slots, node, until})
	u.lost = slices.Delete(u.lost, 0, max(len(u.lost)-maxUnknown, 0))
}

// Update removes the slots that have reached the end of their time, and those of processes that are back.
func (u *Unknown) Update(now time.Duration, back func(node string) bool) {
	u.lost = slices.DeleteFunc(u.lost, func(l lost) bool { return l.until < now || l.node != "" && back(l.node) })
}

// Any reports whether there are unknown slots.
func (u *Unknown) Any() bool { return len(u.lost) > 0 }

// Of returns which of some slots have no known state.
func (u *Unknown) Of(slots *slot.Set) *slot.Set {
	all := new(slot.Set)
	for _, l := range u.lost {
		all.Union(l.slots)
	}
	return Common(all, slots)
}
