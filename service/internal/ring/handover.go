package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server/lease"
)

const (
	// maxClaim bounds the time in which the state of keys arrives.
	maxClaim = 30 * time.Second
	// maxClaimTries bounds the time in which a member is asked again.
	maxClaimTries = 3 * time.Second
)

// unknownSlots are slots whose state was lost with a process, or was claimed and did not come.
type unknownSlots struct {
	slots *slot.Set
	node  string        // the process, if one is known; if it is back, it has the state
	until time.Duration // when leases that it granted have expired
}

// loseLocked notes the slots of processes that have ended, or cannot be asked any more by any
// member, without handing over their state. It returns these slots.
func (r *Ring) loseLocked(was *view, s *census.Survey) *slot.Set {
	now := r.now()
	r.unknown = slices.DeleteFunc(r.unknown, func(u unknownSlots) bool { return u.until < now || u.node != "" && r.census.Back(u.node) })
	names := slices.Clone(s.Unknown)
	for name, status := range s.Status {
		if old, known := was.Status[name]; status == census.Dead && known && old != census.Dead && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	lost, longest := new(slot.Set), r.longestLease()
	for _, name := range names {
		node, slots := r.census.Before(name), was.owned(name)
		lost.Union(slots)
		if node != "" && longest > 0 && slots.Len() > 0 {
			r.noteUnknownLocked(unknownSlots{slots, node, now + longest})
		}
	}
	return lost
}

// miss notes slots whose state was claimed and did not come, for the members that claim them from this one.
func (r *Ring) miss(slots *slot.Set) {
	longest := r.longestLease()
	if longest == 0 {
		return
	}
	missing := *slots
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteUnknownLocked(unknownSlots{slots: &missing, until: r.now() + longest})
}

// noteUnknownLocked notes slots whose state was lost.
func (r *Ring) noteUnknownLocked(u unknownSlots) {
	r.unknown = append(r.unknown, u)
	r.unknown = slices.Delete(r.unknown, 0, max(len(r.unknown)-maxUnknown, 0))
}

// maxUnknown bounds the sets of unknown slots. With more, the oldest are taken for known.
const maxUnknown = 64

// longestLease returns the longest time to live of leases under the rules; 0 if there are none.
func (r *Ring) longestLease() (longest time.Duration) {
	for i := range r.cfg.Local.Rules().Rules {
		if c := r.cfg.Local.Rules().Rules[i].Concurrency; c != nil {
			longest = max(longest, lease.MaxTTL(c))
		}
	}
	return longest
}

// unknownLocked returns which of some slots have no known state.
func (r *Ring) unknownLocked(of *slot.Set) *slot.Set {
	all := new(slot.Set)
	for _, u := range r.unknown {
		all.Union(u.slots)
	}
	return common(all, of)
}

// common returns the slots that are in both sets.
func common(a, b *slot.Set) *slot.Set {
	both := new(slot.Set)
	for i := range both {
		both[i] = a[i] & b[i]
	}
	return both
}

// gainLocked claims the slots that this node decides from now on. Of these, some are lost: the
// state of their owner cannot be claimed.
func (r *Ring) gainLocked(was, next *view, lost *slot.Set) {
	gained := *next.decides()
	gained.Remove(was.decides())
	if gained.Len() == 0 {
		return
	}
	var from []*place
	for name, status := range next.Status {
		p := r.places[name]
		if name != next.Self && p != nil && p.link != nil && (status == census.Live || status == census.Cut || status == census.Left && r.census.Reached(name)) {
			from = append(from, p)
		}
	}
	if was.decides().Len() == 0 { // these are all
		for _, p := range from {
			if next.Status[p.Name] == census.Live {
				p.claimed = r.census.Node(p.Name)
			}
		}
	}
	r.recallLocked(common(&gained, lost))
	if len(from) == 0 && len(r.unknown) == 0 {
		return
	}
	unknown := r.unknownLocked(&gained)
	held := gained
	held.Remove(unknown)
	if unknown.Len() > 0 {
		r.cfg.Local.Expect(unknown, 0)
	}
	r.counts.claims.Add(1)
	r.cfg.Local.Expect(&held, r.cfg.Hold)
	r.claiming.Add(1)
	r.work.Go(func() {
		defer r.claiming.Add(-1)
		r.claim(&gained, unknown, from)
	})
}

// claim asks members for the state of slots.
func (r *Ring) claim(slots, unknown *slot.Set, from []*place) {
	ctx, cancel := context.WithTimeout(r.ctx, maxClaim)
	defer cancel()
	missing := *unknown
	var mu sync.Mutex // guards missing
	var asking sync.WaitGroup
	for _, p := range from {
		asking.Go(func() {
			rest, err := r.claimFrom(ctx, p, slots)
			if err != nil {
				rest = slots
			}
			mu.Lock()
			defer mu.Unlock()
			missing.Union(rest)
		})
	}
	asking.Wait()
	known := *slots
	known.Remove(&missing)
	r.cfg.Local.Received(&known)
	r.forget(&known)
	if missing.Remove(unknown); missing.Len() > 0 { // nothing more comes
		r.cfg.Local.Expect(&missing, 0)
		r.miss(&missing)
	}
	missing.Union(unknown)
	if missing.Len() > 0 {
		r.counts.incomplete.Add(1)
	}
}

// claimFrom asks a member for the state of slots, again until it is linked and knows this one as a
// member. It returns the slots whose state stays unknown: the ones that the member does not know; all if
// its process has ended meanwhile; none if it is dead and was never linked.
func (r *Ring) claimFrom(ctx context.Context, p *place, slots *slot.Set) (*slot.Set, error) {
	process := r.processOf(p.Name)
	for began := time.Now(); ; {
		answer, err := p.link.Call(ctx, claimCall, appendSet(nil, slots))
		now := r.processOf(p.Name)
		if process == "" {
			process = now
		}
		if process != now {
			return slots, nil
		}
		if err == nil {
			if rest, ok := readSet(answer); ok {
				return rest, nil
			}
			return nil, errClaim
		}
		if r.view.Load().Status[p.Name] == census.Dead {
			if process != "" {
				return slots, nil
			}
			return new(slot.Set), nil
		}
		if r.isGone(p.Name) || time.Since(began) > maxClaimTries || !pause(ctx, nil, poll) {
			return nil, err
		}
	}
}

// processOf returns the process that has answered last at a member; empty if none has.
func (r *Ring) processOf(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.census.Node(name)
}

// isGone reports whether a member has left, and does not answer any more.
func (r *Ring) isGone(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.census.Gone(name)
}

// onClaim gives slots up, sends their state to the member that claims them, and answers with
// those whose state is not known.
func (r *Ring) onClaim(ctx context.Context, from peer.Info, body []byte) ([]byte, error) {
	slots, ok := readSet(body)
	if !ok {
		return nil, errClaim
	}
	name := r.nameOf(from.Node)
	r.mu.Lock()
	p, unknown, reached := r.places[name], r.unknownLocked(slots), r.census.Reached(name)
	r.mu.Unlock()
	if p == nil || p.link == nil || !reached {
		return nil, errStranger
	}
	r.cfg.Local.Depart(slots)
	state := keptState{slots: *slots}
	err := r.cfg.Local.Export(ctx, slots, func(chunk []byte) error {
		_, err := p.link.Call(ctx, stateCall, chunk)
		if err == nil {
			state.add(chunk)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.given(slots, state)
	return appendSet(nil, unknown), nil
}

var errClaim = errors.New("a claim must be a set of slots")

// onState adds state that was claimed.
func (r *Ring) onState(_ context.Context, _ peer.Info, chunk []byte) ([]byte, error) {
	return nil, r.cfg.Local.Import(chunk)
}

// given notes that slots were handed over.
func (r *Ring) given(slots *slot.Set, state keptState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepLocked(state)
	if r.leave == nil {
		return
	}
	if r.leave.rest.Remove(slots); r.leave.rest.Len() == 0 && !r.leave.over {
		r.leave.over = true
		close(r.leave.done)
	}
}

// A leave is the end of a member.
type leave struct {
	rest slot.Set      // slots that were not handed over yet
	done chan struct{} // closed when there are none
	over bool
}

// Leave tells the other members that this one is shutting down. They claim its keys, and this node
// forwards all requests from then on. Requests that wait here for tokens or leases wait at the next
// owner. Leave returns when all keys have moved, or ctx ends: moved is false if there were none, or no
// member to take them.
func (r *Ring) Leave(ctx context.Context) (moved bool, err error) {
	r.mu.Lock()
	r.census.Leave()
	l := &leave{rest: *r.view.Load().decides(), done: make(chan struct{})}
	r.leave = l
	_ = r.refreshLocked() // no member is new
	r.noteSoonLocked()
	heirs := false // a member can claim the keys
	for name, status := range r.view.Load().Status {
		heirs = heirs || status == census.Live && name != r.census.Self()
	}
	nothing := !heirs || l.rest.Len() == 0
	r.mu.Unlock()
	if nothing {
		return false, nil
	}
	select {
	case <-l.done:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// appendSet appends a set of slots.
func appendSet(b []byte, s *slot.Set) []byte {
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// readSet reads what appendSet writes.
func readSet(b []byte) (*slot.Set, bool) {
	s := new(slot.Set)
	if len(b) != 8*len(s) {
		return s, false
	}
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s, true
}
