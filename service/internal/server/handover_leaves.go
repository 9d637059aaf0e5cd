package server

import (
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
)

// newOwner returns the configuration of the Allocators of a key that this Server owns since a short time, which learn; nil for another key.
func (s *Server) newOwner(now time.Duration, key string) *allocator.Config {
	if t := s.owned.newest(now, s, key); t != nil {
		return t.sharing
	}
	return nil
}
