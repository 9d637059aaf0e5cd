package server

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// maxHolds bounds the transfers to the Server that hold requests at the same time. With
// more, the oldest holds none any more.
const maxHolds = 64

// owned tells which slots the Server owns.
type owned struct {
	now   atomic.Pointer[ownership]
	taken atomic.Pointer[[]takeover] // the oldest first
}

// A takeover is slots that the Server owns since a short time: until then it does not know all
// assignments of leaves.
type takeover struct {
	slots   *slot.Set // it does not change
	until   time.Duration
	sharing *allocator.Config // of keys in the slots
}

// maxTakeovers bounds the takeovers. With more, the two oldest become one.
const maxTakeovers = 64

// take notes a takeover, until which leaves get what they say they have. Calls must not be
// concurrent.
func (o *owned) take(slots *slot.Set, now, until time.Duration, sharing allocator.Config) {
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
	sharing.Learn = until
	all = append(all, takeover{&added, until, &sharing})
	o.taken.Store(&all)
}

// isNew reports whether the Server owns the slot of a key since a short time.
func (o *owned) isNew(now time.Duration, s *Server, key string) bool {
	return o.newest(now, s, key) != nil
}

// newest returns the last takeover of the slot of a key, or nil.
func (o *owned) newest(now time.Duration, s *Server, key string) *takeover {
	taken := o.taken.Load()
	if taken == nil || (*taken)[len(*taken)-1].until <= now {
		return nil
	}
	of, all := s.RouteKey(key), *taken
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].until > now && all[i].slots.Has(of) {
			return &all[i]
		}
	}
	return nil
}

// An ownership is immutable. If it is nil, the Server owns all slots and holds no requests.
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

// errNow returns decider.ErrMoved if the Server does not own a slot.
func (o *owned) errNow(of uint16) error {
	if now := o.now.Load(); now != nil && now.departed.Has(of) {
		return decider.ErrMoved
	}
	return nil
}

// ownsAll reports whether every request can be decided at once.
func (o *owned) ownsAll() bool { return o.now.Load() == nil }

// await waits for the state of a slot. The error is decider.ErrMoved if the Server does not
// own it, or that of ctx.
func (o *owned) await(ctx context.Context, of uint16, clock func() time.Duration) error {
	for {
		now := o.now.Load()
		switch {
		case now == nil:
			return nil
		case now.departed.Has(of):
			return decider.ErrMoved
		}
		i := slices.IndexFunc(now.holds, func(h hold) bool { return h.slots.Has(of) && h.until > clock() })
		if i < 0 {
			return nil
		}
		h := &now.holds[i]
		timer := time.NewTimer(h.until - clock())
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
func (o *owned) change(now time.Duration, f func(*ownership)) {
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
