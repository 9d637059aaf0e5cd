package server

import (
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Route returns the slot of a request: the owner of the slot decides the request.
func (s *Server) Route(req *decider.Request) uint16 {
	if req.Quota != nil { // the rules do not matter
		return slot.Of(req.Key)
	}
	return s.RouteKey(req.Key)
}

// RouteKey returns the slot of the leases and grants of a key, and of requests without a
// quota of their own.
func (s *Server) RouteKey(key string) uint16 {
	rs := s.rules.Load()
	if rs.RoutesByKey() {
		return slot.Of(key)
	}
	return s.keys.Find(key, rs.Set).Match.Route(key)
}
