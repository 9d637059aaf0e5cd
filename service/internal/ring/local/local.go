// Package local has the decisions of a member of a ring in its own process: by the whole limit about the keys that it owns, and
// by its share about others.
package local

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// An Owner decides about the keys that this node owns: a *server.Server, which describes its methods.
type Owner interface {
	decider.Decider
	Route(req *decider.Request) uint16
	RouteKey(key string) uint16
	Replaced(reqs []decider.Request) []bool
	CheckRequests(reqs []decider.Request) error
	Reset(ctx context.Context, key string) ([]decider.Reset, error)
	Rules() *config.Rules
	Now() time.Duration

	// The state of slots comes and goes.
	Expect(slots *slot.Set, hold time.Duration)
	Awaits(at uint16) bool
	Import(chunk []byte) error
	Received(slots *slot.Set)
	Depart(slots *slot.Set)
	Export(ctx context.Context, slots *slot.Set, emit func(chunk []byte) error) error
}

// A Share decides about keys while their owner cannot be asked: a *server.Fallback, which describes its methods.
type Share interface {
	Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error
	Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error
	Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error)
	Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error)
	Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error)
	Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error)
	Return(ctx context.Context, key, id string, o weir.Outcome) error
	Explain(ctx context.Context, key string) (decider.Explanation, error)
	Use(rules *config.Rules, members int) error
}

// IsUndecided reports whether an error means that a request was not decided.
func IsUndecided(err error) bool {
	switch err {
	case decider.ErrNoGrant, decider.ErrNoLease, decider.ErrLeaves, decider.ErrNoLeasing, decider.ErrNoRate, decider.ErrOwnQuota, decider.ErrQuota:
		return false
	}
	_, rejected := err.(*weir.Rejection)
	return !rejected
}
