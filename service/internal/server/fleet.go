package server

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/handover"
	"github.com/weir-go/weir/service/internal/server/quota"
)

// fleetKey derives a key for one use from the secret of a fleet.
func fleetKey(fleet, use string) siphash.Key {
	sum := sha256.Sum256([]byte("weir " + use + "\x00" + fleet))
	return siphash.Key{K0: binary.LittleEndian.Uint64(sum[:]), K1: binary.LittleEndian.Uint64(sum[8:])}
}

// join makes the Server a member of Config.Fleet, if there is one, before any other use.
func (s *Server) join(c *clock.Clock) {
	fleet := s.cfg.Fleet
	if fleet == "" {
		return
	}
	s.chunks = handover.NewSender(fleetKey(fleet, "handover"))
	s.grants = grant.NewFleet(fleetKey(fleet, "grants"), c)
	s.leases.Share(fleetKey(fleet, "leases"), s.RouteKey)
	s.room.SetOwned(s.owned.errNow)
	s.own.Share(fleetKey(fleet, "table"))
}

// shareKeys gives new buckets the fingerprints of the fleet.
func (s *Server) shareKeys(b quota.Buckets) {
	if s.cfg.Fleet != "" {
		b.Share(fleetKey(s.cfg.Fleet, "table"))
	}
}

// newBuckets returns full buckets.
func (s *Server) newBuckets(q config.Quota, per config.Per, memory int) (quota.Buckets, error) {
	b, err := quota.New(s.clock, q, per, memory)
	if err != nil {
		return nil, err
	}
	s.shareKeys(b)
	return b, nil
}
