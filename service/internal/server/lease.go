package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Acquire takes a lease: see decider.Decider.
func (s *Server) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if req.N < 1 {
		panic("server: a lease of less than one unit")
	}
	if err := s.enter(ctx, req.Key); err != nil {
		return decider.Lease{}, err
	}
	for again := (lease.Wait{OnWait: req.OnWait}); ; {
		k := s.keys.Find(req.Key, s.rules.Load().Set)
		l, err := s.leases.Acquire(ctx, k.Match, &req, &again)
		if err != waiting.ErrMoved {
			s.refusedLeases.count(k, err)
			return l, err
		}
	}
}

// Renew extends a lease: see decider.Decider.
func (s *Server) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	if err := s.enter(ctx, key); err != nil {
		return decider.Lease{}, err
	}
	return s.leases.Renew(ctx, s.matchOf(key), key, id, ttl)
}

// Return ends a lease: see decider.Decider.
func (s *Server) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	return s.leases.Return(ctx, s.matchOf(key), key, id, o)
}

// matchOf returns the rules in force that count for a key.
func (s *Server) matchOf(key string) *rules.Match { return s.keys.Find(key, s.rules.Load().Set).Match }
