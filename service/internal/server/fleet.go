package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/handover"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/node"
)

// fleetKey derives a key for one use from the secret of a fleet.
func fleetKey(fleet, use string) siphash.Key {
	sum := sha256.Sum256([]byte("weir " + use + "\x00" + fleet))
	return siphash.Key{K0: binary.LittleEndian.Uint64(sum[:]), K1: binary.LittleEndian.Uint64(sum[8:])}
}

// join makes the Server a member of Config.Fleet, if there is one, before any other use.
func (s *Server) join(in *memory.Config, of *node.Config) {
	if fleet := s.cfg.Fleet; fleet != "" {
		s.chunks = handover.NewSender(fleetKey(fleet, "handover"))
		s.grants = grant.NewFleet(fleetKey(fleet, "grants"), s.clock)
		s.leases.Share(fleetKey(fleet, "leases"), func(key string) uint16 { return s.RouteKey(key) })
		s.room.SetOwned(s.owned.errNow)
		table := fleetKey(fleet, "table")
		in.Fleet = &table
	}
	in.Grants, of.Slots = s.grants, ownSlots{s}
}

// ownSlots are the slots that a Server owns.
type ownSlots struct{ *Server }

// OwnsAll reports whether every request can be decided at once.
func (s ownSlots) OwnsAll() bool { return s.owned.ownsAll() }

// Await waits for the state of a slot: see owned.await.
func (s ownSlots) Await(ctx context.Context, slot uint16) error {
	return s.owned.await(ctx, slot, s.clock.Now)
}

// Awaits reports whether requests for keys in a slot are held, because its state is still to
// come: see Expect.
func (s *Server) Awaits(at uint16) bool {
	now := s.owned.now.Load()
	return now != nil && slices.ContainsFunc(now.holds, func(h hold) bool { return h.slots.Has(at) && h.until > s.clock.Now() })
}
