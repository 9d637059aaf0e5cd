package ring

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/rendezvous"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/ring/census"
)

// A view has the owner of each slot. It does not change.
type view struct {
	census.Survey
	names  []string        // of the owners, in order
	places []*place        // of the owners; that of this node has no link
	here   int             // the index of this node; -1 if it owns no slots
	owners []int16         // the index of the owner of each slot; nil if there are none
	cut    []bool          // whether this node cannot ask the owners
	since  []time.Duration // when the links of the owners came up or went down
	over   chan struct{}   // closed when another view has replaced this one
}

// newView returns the view after a survey.
func newView(s census.Survey, places map[string]*place) *view {
	v := &view{Survey: s, here: -1, over: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(s.Status)) {
		status := s.Status[name]
		if status != census.Live && status != census.Cut {
			continue
		}
		if name == s.Self {
			v.here = len(v.names)
		}
		v.names, v.places, v.cut = append(v.names, name), append(v.places, places[name]), append(v.cut, status == census.Cut)
	}
	if set := rendezvous.New(v.names); set.Len() > 0 {
		v.since = make([]time.Duration, len(v.names))
		v.owners = make([]int16, slot.Count)
		for i := range v.owners {
			v.owners[i] = int16(set.OwnerOf(uint16(i)))
		}
	}
	return v
}

// owned returns the slots that a member owns.
func (v *view) owned(name string) *slot.Set {
	set, index := new(slot.Set), slices.Index(v.names, name)
	for i, owner := range v.owners {
		if int(owner) == index {
			set.Add(uint16(i))
		}
	}
	return set
}

// slots returns how many slots each owner owns.
func (v *view) slots() map[string]int {
	n := make([]int, len(v.names))
	for _, owner := range v.owners {
		n[owner]++
	}
	all := make(map[string]int, len(n))
	for i, name := range v.names {
		all[name] = n[i]
	}
	return all
}

// decides returns the slots that this node decides with the whole limit.
func (v *view) decides() *slot.Set {
	if !v.Quorum || v.here < 0 {
		return new(slot.Set)
	}
	return v.owned(v.names[v.here])
}

// A target says where a request is decided: here, at the place of another member, or nowhere if
// the owner cannot be asked.
type target struct {
	here  bool
	place *place
	// since is when the link to the owner was lost. It is negative if the owner is not lost.
	since time.Duration
}

// route returns where requests for a slot are decided.
func (v *view) route(at uint16) target {
	if v.owners == nil {
		return target{since: -1}
	}
	i := int(v.owners[at])
	if i == v.here {
		return target{here: v.Quorum, since: -1}
	}
	p := v.places[i]
	switch {
	case v.cut[i]:
		return target{since: v.since[i]}
	case !v.Quorum && !p.quorum.Load(): // the owner decides by its share, and so does this node
		return target{since: -1}
	}
	return target{place: p, since: -1}
}
