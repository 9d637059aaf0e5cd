package server

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
)

// A Lease is units of a key that are held, across processes, until they are
// returned or the lease runs out.
type Lease struct {
	ID  string
	Key string
	N   int // units
	// Token goes up with every lease that a Server grants: whoever guards a resource
	// can refuse a holder whose token is less than one it has seen (a fencing token).
	Token    uint64
	TTL      time.Duration // from when the Lease was granted or renewed
	Waited   time.Duration
	Limit    int // of the key, in units, now
	Inflight int // units of the key that are held, these included
}

// A LeaseRequest asks for units of a key.
type LeaseRequest struct {
	Key string
	N   int // units, >= 1
	// TTL is how long the lease lasts unless it is renewed. If zero, the rule's TTL;
	// the rule's MaxTTL bounds it.
	TTL time.Duration
	// Wait stands in line if need be, until the deadline of the context or the
	// rule's MaxWait.
	Wait bool
}

// Errors of leases.
var (
	ErrNoLease   = errors.New("there is no such lease of this key: it was returned, or has run out")
	ErrNoLeasing = errors.New("no rule with a concurrency matches the key")
)

// Acquire leases N units of a key under every rule with a Concurrency that counts
// for it, or of none. The error is a *weir.Rejection (OverLimit, QueueFull,
// Overdue, TooLate, Closed), ErrNoLeasing, or the context's own.
func (s *Server) Acquire(ctx context.Context, req LeaseRequest) (Lease, error) {
	return Lease{}, ErrNoLeasing
}

// Renew lets a lease last for a TTL from now. The error is ErrNoLease if it is
// not held any more: then its holder must stop.
func (s *Server) Renew(key, id string, ttl time.Duration) (Lease, error) {
	return Lease{}, ErrNoLease
}

// Return gives a lease back, and tells how the work went, which an Auto limit
// learns from. The error is ErrNoLease.
func (s *Server) Return(key, id string, o weir.Outcome) error { return ErrNoLease }

// LeaseStats counts the leases of a rule.
type LeaseStats struct {
	Held, Waiting              int // units; requests
	Keys                       int // keys with a limit in use
	Granted, Returned, Expired uint64
	Renewed                    uint64
	Refused                    map[weir.Reason]uint64
}

// LeaseState is what is known of the leases of one key.
type LeaseState struct {
	Limit, Inflight, Waiting int
}

// leases are all that are held.
type leases struct{}

func (*leases) init(*Server) {}
func (*leases) dismiss()     {}
func (*leases) waiting() int { return 0 }

// gates are the limits of one rule's keys, while they are in use.
type gates struct{}

func (*gates) stats() LeaseStats                     { return LeaseStats{} }
func (*gates) state(r *Rule, key string) *LeaseState { return nil }
