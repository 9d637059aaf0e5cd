package store

import (
	"context"
	"crypto/rand"
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/siphash"
)

const (
	// countEvery is the time between two reports of a node that it is there, and joinEvery that
	// until the first one is answered.
	countEvery = 5 * time.Second
	joinEvery  = time.Second
	// nodeLife is how long a node counts after its last report.
	nodeLife = 3 * countEvery
	// keepCounts is how many counts are kept: the share is by the largest, because nodes that
	// are cut off from the store do not count in it any more.
	keepCounts = 12
)

var nodeScript = redislink.NewScript(redisscript.Nodes)

// nodes has the last counts of the nodes that share the store.
type nodes struct {
	last   []int
	joined atomic.Bool // the store has counted this node
}

// Joined reports whether the store has counted this node, at any time: the node shares its secret,
// and knows how many nodes share the limits.
func (s *Counts) Joined() bool { return s.nodes.joined.Load() }

// keepCounted reports this node to the store from time to time, and sets the share by the number
// of nodes there.
func (s *Counts) keepCounted(ctx context.Context) {
	id := rand.Text()
	for {
		s.countNodes(ctx, id)
		s.held.Count() // forgets expired ones
		pause := countEvery
		if !s.Joined() {
			pause = joinEvery
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func (s *Counts) countNodes(ctx context.Context, id string) {
	key := s.cfg.Prefix + "nodes:{*}"
	secret := s.grants.Secret()
	args := []any{id, int64(nodeLife / time.Microsecond), secret.K0 >> 32, secret.K0 & math.MaxUint32, secret.K1 >> 32, secret.K1 & math.MaxUint32}
	c := &redislink.Call{
		Script: nodeScript, Keys: []string{key, key + ":secret"}, Args: args,
		Look: func() []any { return append([]any{""}, args[1:]...) },
	}
	numbers, err := s.link.Lane(key).Ask(ctx, c)
	if err != nil || len(numbers) != 5 {
		return
	}
	s.grants.SetSecret(siphash.Key{K0: uint64(numbers[1])<<32 | uint64(numbers[2]), K1: uint64(numbers[3])<<32 | uint64(numbers[4])})
	n := &s.nodes
	defer n.joined.Store(true)
	if s.cfg.Instances > 0 {
		return
	}
	if n.last = append(n.last, int(numbers[0])); len(n.last) > keepCounts {
		n.last = n.last[1:]
	}
	most := 1
	for _, count := range n.last {
		most = max(most, count)
	}
	s.of.SetInstances(most)
}
