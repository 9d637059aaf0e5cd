package server

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/snapshot/handover"
)

// fleetKey derives a key for one use from the secret of a fleet.
func fleetKey(fleet, use string) siphash.Key {
	sum := sha256.Sum256([]byte("weir " + use + "\x00" + fleet))
	return siphash.Key{K0: binary.LittleEndian.Uint64(sum[:]), K1: binary.LittleEndian.Uint64(sum[8:])}
}

// join makes the Server a member of Config.Fleet, if there is one, before any other use. It returns
// what makes the chunks of a handover then.
func (s *Server) join(in *memory.Config, of *node.Config) (chunks *handover.Sender) {
	if fleet := s.cfg.Fleet; fleet != "" {
		chunks = handover.NewSender(fleetKey(fleet, "handover"))
		s.grants = grant.NewFleet(fleetKey(fleet, "grants"), s.clock)
		s.leases.Share(fleetKey(fleet, "leases"), func(key string) uint16 { return s.RouteKey(key) })
		s.room.SetOwned(s.owned.Moved)
		table := fleetKey(fleet, "table")
		in.Fleet, of.Slots = &table, s.owned
	}
	in.Grants = s.grants
	return chunks
}
