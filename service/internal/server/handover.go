package server

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

// Depart gives slots up: another member owns them from now on. Every method answers
// decider.ErrMoved for keys of these slots, and the requests that wait get it in order of
// arrival. Expect takes slots back.
func (s *Server) Depart(slots *slot.Set) {
	s.reload.Lock() // requests that wait stay where they are
	defer s.reload.Unlock()
	s.owned.change(s.clock.Now(), func(o *ownership) {
		o.departed.Union(slots)
		for i := range o.holds {
			o.holds[i].slots.Remove(slots)
		}
	})
}

// Expect takes slots over, whose state may follow. Requests for their keys wait until
// Received, but for the time hold at most. Until Received, or until the longest time to live
// of leases has passed, their keys get no new leases, and leases that the last owner has
// granted are adopted when they are renewed. Fencing tokens are greater than those of the last
// owner, unless its clock is ahead by more than the time since its last lease.
func (s *Server) Expect(slots *slot.Set, hold time.Duration) {
	s.reload.Lock()
	defer s.reload.Unlock()
	now := s.clock.Now()
	s.owned.change(now, func(o *ownership) { o.expect(slots, now+hold) })
}

// Received says that the state of slots is complete.
func (s *Server) Received(slots *slot.Set) {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.owned.change(s.clock.Now(), func(o *ownership) {
		for i := range o.holds {
			o.holds[i].slots.Remove(slots)
		}
	})
}

func (o *ownership) expect(slots *slot.Set, until time.Duration) {
	o.departed.Remove(slots)
	held := *slots
	o.holds = append(o.holds, hold{&held, until, make(chan struct{})})
}

var errNoHandover = errors.New("not built yet")

// Export takes the state of slots out of the Server, and passes it to emit in chunks of up
// to 256 KiB, for Import at the new owner. Depart must have been called.
func (s *Server) Export(ctx context.Context, slots *slot.Set, emit func(chunk []byte) error) error {
	return errNoHandover
}

// Import adds a chunk of the state of another member.
func (s *Server) Import(chunk []byte) error { return errNoHandover }
