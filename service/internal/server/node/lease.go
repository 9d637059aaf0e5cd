package node

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
)

// Acquire takes a lease: see decider.Decider.
func (n *Node) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if req.N < 1 {
		panic("server: a lease of less than one unit")
	}
	if err := n.Enter(ctx, req.Key); err != nil {
		return decider.Lease{}, err
	}
	for again := (lease.Wait{OnWait: req.OnWait}); ; {
		k := n.keys.Find(req.Key, n.rules.Load())
		l, next, err := n.leases.Acquire(ctx, k.Match, req, again)
		if again = next; !moved(err) {
			n.refusedLeases.count(k, err)
			return l, err
		}
	}
}

// Renew extends a lease: see decider.Decider.
func (n *Node) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	if err := n.Enter(ctx, key); err != nil {
		return decider.Lease{}, err
	}
	for {
		if l, err := n.leases.Renew(ctx, n.Match(key), key, id, ttl); !moved(err) {
			return l, err
		}
	}
}

// Return ends a lease: see decider.Decider.
func (n *Node) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	if err := n.Enter(ctx, key); err != nil {
		return err
	}
	for {
		if err := n.leases.Return(ctx, n.Match(key), key, id, o); !moved(err) {
			return err
		}
	}
}
