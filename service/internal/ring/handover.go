package ring

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/ring/handover"
	"github.com/weir-go/weir/service/internal/server/lease"
)

const (
	// maxClaim bounds the time in which the state of keys arrives.
	maxClaim = 30 * time.Second
	// maxClaimTries bounds the time in which a member is asked again, without the time in which it had other claims to wait for
	// before it refused one.
	maxClaimTries = 3 * time.Second
)

// loseLocked notes the slots of processes that have ended, or cannot be asked any more by any
// member, without handing over their state. It returns these slots.
func (r *Ring) loseLocked(was *view, s *census.Survey) *slot.Set {
	now := r.now()
	r.unknown.Update(now, r.census.Back)
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
			r.unknown.Note(slots, node, now+longest)
		}
	}
	return lost
}

// miss notes slots whose state was claimed and did not come: here, of the ones that this node decides, unless another member has
// claimed them since, and for the members that claim them from this one.
func (r *Ring) miss(cl *handover.Claim, slots slot.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := handover.Common(&slots, r.view.Load().decides())
	here.Remove(r.claims.Lost(cl))
	r.cfg.Local.Expect(here, 0)
	if longest := r.longestLease(); longest > 0 {
		r.unknown.Note(&slots, "", r.now()+longest)
	}
}

// longestLease returns the longest time to live of leases under the rules; 0 if there are none.
func (r *Ring) longestLease() time.Duration { return lease.LongestTTL(r.cfg.Local.Rules()) }

// gainLocked claims the slots that this node decides from now on, and the stray ones. Of these, some are lost: the state of
// their owner cannot be claimed.
func (r *Ring) gainLocked(was, next *view, lost, stray *slot.Set) {
	gained, had := *next.decides(), *was.decides()
	had.Remove(stray)
	gained.Remove(&had)
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
	r.kept.Recall(handover.Common(&gained, lost), r.now(), r.cfg.Local.Import)
	if len(from) == 0 && !r.unknown.Any() {
		if r.joined.Load() { // other members may have decided them
			r.cfg.Local.Expect(&gained, 0)
			r.cfg.Local.Received(&gained)
		}
		return
	}
	unknown := r.unknown.Of(&gained)
	held := gained
	held.Remove(unknown)
	if unknown.Len() > 0 {
		r.cfg.Local.Expect(unknown, 0)
	}
	r.counts.claims.Add(1)
	r.cfg.Local.Expect(&held, r.cfg.Hold)
	r.claiming.Add(1)
	cl := r.claims.Begin(&gained)
	r.work.Go(func() {
		r.claim(cl, &gained, unknown, from)
		r.claims.End(cl)
		r.claiming.Add(-1)
	})
}

// claim asks members for the state of slots.
func (r *Ring) claim(cl *handover.Claim, slots, unknown *slot.Set, from []*place) {
	ctx, cancel := context.WithTimeout(r.ctx, maxClaim)
	defer cancel()
	missing := *unknown
	var mu sync.Mutex // guards missing
	var asking sync.WaitGroup
	for _, p := range from {
		asking.Go(func() {
			rest, err := r.claimFrom(ctx, p, cl)
			if err != nil {
				rest = slots
			}
			mu.Lock()
			defer mu.Unlock()
			missing.Union(rest)
		})
	}
	asking.Wait()
	known, _ := r.claims.Get(cl)
	known.Remove(&missing)
	r.cfg.Local.Received(known)
	r.mu.Lock()
	r.kept.Forget(known)
	r.mu.Unlock()
	if missing.Remove(unknown); missing.Len() > 0 {
		r.miss(cl, missing)
	}
	missing.Union(unknown)
	if missing.Len() > 0 {
		r.counts.incomplete.Add(1)
	}
}

// claimFrom asks a member for the state of slots, again until it is linked and knows this one as a
// member. It returns the slots that stay without their state: the ones that the member does not know; all if
// its process has ended meanwhile; none if it is dead and was never linked, or others have claimed the slots since.
func (r *Ring) claimFrom(ctx context.Context, p *place, cl *handover.Claim) (*slot.Set, error) {
	process, refused := r.processOf(p.Name), 0
	for began := time.Now(); ; {
		slots, epoch := r.claims.Get(cl)
		if slots.Len() == 0 {
			return slots, nil
		}
		if p.link.Stats().State.Peer.Revision < wire.KnowsEpochs {
			epoch = 0
		}
		asked := time.Now()
		answer, err := p.link.Call(ctx, claimCall, handover.AppendClaim(nil, slots, epoch))
		now := r.processOf(p.Name)
		if process == "" {
			process = now
		}
		if process != now {
			return slots, nil
		}
		if err == nil {
			if later, ok := handover.ReadRefusal(answer); ok && epoch > 0 {
				r.claims.Again(cl, r.view.Load().decides(), later)
				began = began.Add(time.Since(asked))
				if refused++; time.Since(began) > maxClaimTries || refused > 1 && !pause(ctx, nil, poll) {
					return nil, errClaim
				}
				continue
			}
			rest, ok := handover.ReadSet(answer)
			if !ok {
				err = errClaim
			}
			return rest, err
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
// those whose state is not known. It refuses a claim if it knows a later one. What this node claims itself, it has before it
// answers: so each claim waits for earlier ones, and none for a later one.
func (r *Ring) onClaim(ctx context.Context, from wire.Info, body []byte) ([]byte, error) {
	slots, epoch, ok := handover.ReadClaim(body)
	if !ok || epoch == 0 && from.Revision >= wire.KnowsEpochs { // it has not heard yet that this node knows them
		return nil, errClaim
	}
	r.mu.Lock()
	name := r.census.Name(from.Node)
	p := r.places[name]
	if p == nil || p.link == nil || !r.census.Reached(name) {
		r.mu.Unlock()
		return nil, errStranger
	}
	if r.claims.Note(from.Node, slots, epoch) {
		r.cfg.Local.Depart(slots)
		r.strays.Add(slots, r.now())
	}
	r.mu.Unlock()
	later, err := r.claims.Await(ctx, from.Node, slots, epoch)
	if err != nil || later > 0 {
		return handover.AppendRefusal(nil, later), err
	}
	select {
	case p.giving <- struct{}{}:
		defer func() { <-p.giving }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	unknown := r.unknown.Of(slots)
	r.mu.Unlock()
	state := handover.NewState(slots)
	err = r.cfg.Local.Export(ctx, slots, func(chunk []byte) error {
		_, err := p.link.Call(ctx, stateCall, chunk)
		if err == nil {
			state.Add(chunk)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.given(slots, state)
	return handover.AppendSet(nil, unknown), nil
}

var errClaim = errors.New("a claim must be a set of slots, with an epoch if both members know epochs")

// onState adds state that was claimed.
func (r *Ring) onState(_ context.Context, _ wire.Info, chunk []byte) ([]byte, error) {
	return nil, r.cfg.Local.Import(chunk)
}

// given notes that slots were handed over.
func (r *Ring) given(slots *slot.Set, state handover.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Keep(state, r.now())
	if r.leave != nil {
		r.leave.Given(slots)
	}
}

// Leave tells the other members that this one is shutting down. They claim its keys, and this node
// forwards all requests from then on. Requests that wait here for tokens or leases wait at the next
// owner. Leave returns when all keys have moved, ctx ends, or no member is left to take them: moved is false if
// there were none, or then, and this node goes on deciding.
func (r *Ring) Leave(ctx context.Context) (moved bool, err error) {
	r.mu.Lock()
	r.census.Leave()
	l := handover.NewLeave(r.view.Load().decides())
	r.leave = l
	_ = r.refreshLocked() // no member is new
	r.noteSoonLocked()
	nothing := l.Nothing() || !r.view.Load().HasHeirs()
	r.mu.Unlock()
	if nothing {
		return false, nil
	}
	select {
	case <-l.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return l.Nothing(), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
