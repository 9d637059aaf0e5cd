package snapshot

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// maxHolds bounds the transfers to the node that hold requests at the same time. With
// more, the oldest holds none any more.
const maxHolds = 64

// Owned tells which slots a node owns. It is a node.Slots.
type Owned struct {
	clock *clock.Clock
	route func(key string) uint16
	now   atomic.Pointer[ownership]
	taken atomic.Pointer[[]takeover] // the oldest first
}

// NewOwned returns an Owned with all slots; route returns the slot of a key.
func NewOwned(c *clock.Clock, route func(key string) uint16) *Owned {
	return &Owned{clock: c, route: route}
}

// A takeover is slots that the node owns since a short time: until then it does not know all
// assignments of leaves.
type takeover struct {
	slots   *slot.Set         // it does not change
	sharing *allocator.Config // of keys in the slots
	until   time.Duration
}

// maxTakeovers bounds the takeovers. With more, the two oldest become one.
const maxTakeovers = 64

// take notes a takeover that ends at an instant. Until sharing.Learn, leaves get what they say they have. Calls must not be
// concurrent.
func (o *Owned) take(slots *slot.Set, now, until time.Duration, sharing *allocator.Config) {
	var all []takeover
	if was := o.taken.Load(); was != nil {
		all = slices.DeleteFunc(slices.Clone(*was), func(t takeover) bool { return t.until <= now })
	}
	if len(all) == maxTakeovers {
		both := *all[0].slots
		both.Union(all[1].slots)
		all[1].slots = &both
		all = all[1:]
	}
	added := *slots
	all = append(all, takeover{&added, sharing, until})
	o.taken.Store(&all)
}

// Sharing returns how to share the limits of a key in a slot that the node owns since a short time; else nil.
func (o *Owned) Sharing(now time.Duration, key string) *allocator.Config {
	taken := o.taken.Load()
	if taken == nil || (*taken)[len(*taken)-1].until <= now {
		return nil
	}
	of, all := o.route(key), *taken
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].until > now && all[i].slots.Has(of) {
			return all[i].sharing
		}
	}
	return nil
}

// An ownership is immutable. If it is nil, the node owns all slots and holds no requests.
type ownership struct {
	departed *slot.Set
	holds    []hold // the oldest first
}

// A hold makes requests wait for the state of their slots.
type hold struct {
	slots *slot.Set
	until time.Duration
	over  chan struct{} // closed when another ownership has replaced this one
}

// Moved returns decider.ErrMoved if the node does not own a slot.
func (o *Owned) Moved(of uint16) error {
	if now := o.now.Load(); now != nil && now.departed.Has(of) {
		return decider.ErrMoved
	}
	return nil
}

// OwnsAll reports whether the node owns all slots and holds no requests, so that no request needs
// Moved or Await.
func (o *Owned) OwnsAll() bool { return o.now.Load() == nil }

// Awaits reports whether requests for keys in a slot are held, because its state is still to
// come: see Keeper.Expect.
func (o *Owned) Awaits(of uint16) bool {
	now := o.now.Load()
	return now != nil && slices.ContainsFunc(now.holds, func(h hold) bool { return h.slots.Has(of) && h.until > o.clock.Now() })
}

// Await waits for the state of a slot. The error is decider.ErrMoved if the node does not
// own it, or that of ctx.
func (o *Owned) Await(ctx context.Context, of uint16) error {
	for {
		now := o.now.Load()
		switch {
		case now == nil:
			return nil
		case now.departed.Has(of):
			return decider.ErrMoved
		}
		i := slices.IndexFunc(now.holds, func(h hold) bool { return h.slots.Has(of) && h.until > o.clock.Now() })
		if i < 0 {
			return nil
		}
		h := &now.holds[i]
		timer := time.NewTimer(h.until - o.clock.Now())
		select {
		case <-h.over:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// change replaces the ownership, and lets the requests that are held look again. Calls must
// not be concurrent.
func (o *Owned) change(now time.Duration, f func(*ownership)) {
	next, was := &ownership{departed: new(slot.Set)}, o.now.Load()
	if was != nil {
		*next.departed = *was.departed
		for _, h := range was.holds {
			if h.until > now {
				slots := *h.slots
				next.holds = append(next.holds, hold{&slots, h.until, make(chan struct{})})
			}
		}
	}
	f(next)
	next.holds = slices.DeleteFunc(next.holds, func(h hold) bool { return *h.slots == slot.Set{} })
	next.holds = slices.Delete(next.holds, 0, max(len(next.holds)-maxHolds, 0))
	if *next.departed == (slot.Set{}) && len(next.holds) == 0 {
		next = nil
	}
	o.now.Store(next)
	if was != nil {
		for _, h := range was.holds {
			close(h.over)
		}
	}
}

// release lets the requests in slots go on.
func (o *ownership) release(slots *slot.Set) {
	for i := range o.holds {
		o.holds[i].slots.Remove(slots)
	}
}

// hold makes requests in slots wait for a time.
func (o *ownership) hold(slots *slot.Set, now, d time.Duration) {
	if d <= 0 {
		return
	}
	held, until := *slots, now+min(d, rules.MaxSpan)
	o.holds = append(o.holds, hold{&held, until, make(chan struct{})})
}
