// Package leaves divides the exchange of a leaf among the members that own its keys, and joins their answers.
package leaves

import (
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// An Exchange is the exchange of a leaf with all members.
type Exchange struct {
	Began time.Duration

	x       *decider.LeafExchange
	got     *decider.LeafAnswer
	todo    []int            // the indexes of the reports without an answer
	answers map[string]*Part // the last of each member
}

// A Part is the exchange of a leaf with one member.
type Part struct {
	Owner int // the index of the member
	Asked decider.LeafExchange
	Got   decider.LeafAnswer
	Err   error

	name string
	at   []int // the indexes of the reports in the exchange
}

// New returns the exchange that began at an instant. Its answer becomes got.
func New(x *decider.LeafExchange, got *decider.LeafAnswer, began time.Duration) *Exchange {
	*got = decider.LeafAnswer{Answer: leaf.Answer{
		Assignments: append(got.Assignments[:0], make([]leaf.Assignment, len(x.Reports))...), Watch: got.Watch[:0],
	}}
	e := &Exchange{Began: began, x: x, got: got, answers: map[string]*Part{}}
	for i := range x.Reports {
		e.todo = append(e.todo, i)
	}
	return e
}

// Divide returns the Parts of the members that have not answered yet, and of the owners of keys without an answer. Members
// are the names of all owners of keys. A member that cannot be asked gets no Part. ownerOf returns the index of the owner of a key,
// -1 if there is none.
func (e *Exchange) Divide(members []string, canAsk func(member int) bool, ownerOf func(key string) int) (parts []*Part) {
	byOwner := make([]*Part, len(members))
	for i, name := range members {
		if canAsk(i) {
			byOwner[i] = &Part{Owner: i, name: name, Asked: *e.x}
			byOwner[i].Asked.Reports = nil
		}
	}
	var lost []int
	for _, at := range e.todo {
		report := &e.x.Reports[at]
		var p *Part
		if owner := ownerOf(report.Key); owner >= 0 {
			p = byOwner[owner]
		}
		if p == nil {
			lost = append(lost, at)
			continue
		}
		p.at, p.Asked.Reports = append(p.at, at), append(p.Asked.Reports, *report)
	}
	e.todo = lost
	for _, p := range byOwner {
		// With Single, only the reported keys are renewed; without reports, all members are asked.
		if all := !e.x.Single || len(e.x.Reports) == 0; p != nil && (len(p.at) > 0 || all && e.answers[p.name] == nil) {
			parts = append(parts, p)
		}
	}
	return parts
}

// Take takes the answers of Parts. It reports whether keys have moved meanwhile. The error can be decider.ErrLeaves.
func (e *Exchange) Take(parts []*Part) (moved bool, err error) {
	for _, p := range parts {
		switch {
		case p.Err == decider.ErrLeaves:
			return false, p.Err
		case p.Err != nil || len(p.Got.Assignments) != len(p.at):
			moved = moved || p.Err == decider.ErrMoved
			e.todo = append(e.todo, p.at...)
			continue
		}
		e.answers[p.name] = p
		for i, at := range p.at {
			e.got.Assignments[at] = p.Got.Assignments[i]
		}
	}
	return moved, nil
}

// Finish joins the answers of members. It reports false if there is none, or if the assignments of an owner that could not
// be asked end.
func (e *Exchange) Finish(renewed *Renewals, owners []string) bool {
	first := true
	for _, p := range e.answers {
		if first || p.Got.TTLMS < e.got.TTLMS {
			e.got.TTLMS = p.Got.TTLMS
		}
		if first || p.Got.NextMS < e.got.NextMS {
			e.got.NextMS = p.Got.NextMS
		}
		e.got.Known += p.Got.Known
		e.got.Leaves = max(e.got.Leaves, p.Got.Leaves)
		e.got.Resync = e.got.Resync || p.Got.Resync
		e.got.Watch = append(e.got.Watch, p.Got.Watch...)
		first = false
	}
	for _, at := range e.todo {
		e.got.Assignments[at] = leaf.Assignment{Key: e.x.Reports[at].Key, Learning: true}
	}
	switch {
	case first:
		return false
	case e.x.Single || e.x.Leave:
		return true
	}
	left, whole := renewed.note(e, owners, time.Duration(e.got.TTLMS)*time.Millisecond)
	if left < leastTTL {
		return false
	}
	e.got.TTLMS = left.Milliseconds()
	if !whole { // until all can be asked, reports of all keys would not help
		e.got.Known = max(e.got.Known, e.x.Held)
	}
	return true
}
