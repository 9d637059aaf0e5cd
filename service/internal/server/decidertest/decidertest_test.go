// Package decidertest tells the same stories to every implementation of decider.Decider, in virtual time.
package decidertest

import (
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// rigs returns the implementations.
func rigs(t *testing.T) []*rig {
	all := []*rig{
		{name: "memory", make: newMemory, traits: traits{Alone: true}},
		{name: "owner", make: newFleet(false), traits: traits{Fleet: true}},
		{name: "member", make: newFleet(true), traits: traits{Fleet: true}},
		{name: "link", make: newLinked, traits: traits{Link: true}},
		{name: "fallback", make: newFallback, traits: traits{Share: true, Alone: true}},
		{name: "leaf", make: newTier(server.TierConfig{Leaves: 3}), traits: traits{Leaf: true}},
		{name: "leaf of a leaf", make: newTiers(server.TierConfig{Leaves: 3}), traits: traits{Leaf: true}},
	}
	for name, start := range stores {
		at := start(t)
		all = append(all, &rig{name: name, traits: traits{Store: true}, make: func(t *testing.T, rules *config.Rules) (*node, error) {
			return newShared(t, at, rules, server.StoreConfig{Known: -1, Instances: 3})
		}}, &rig{name: "nodes of " + name, traits: traits{Store: true, Nodes: true}, make: func(t *testing.T, rules *config.Rules) (*node, error) {
			return newPair(t, at, rules, server.StoreConfig{Known: -1, Instances: 3})
		}}, &rig{name: "leaf of " + name, traits: traits{Store: true, Leaf: true}, make: func(t *testing.T, rules *config.Rules) (*node, error) {
			return newStoreLeaf(t, at, rules)
		}})
	}
	return all
}

func TestStories(t *testing.T) {
	for _, r := range rigs(t) {
		t.Run(r.name, func(t *testing.T) {
			for _, list := range [][]story{stories, waitStories, settleStories, leaseStories, reloadStories} {
				for i := range list {
					for _, s := range list[i].told() {
						t.Run(s.name, func(t *testing.T) { run(t, r, s) })
					}
				}
			}
		})
	}
}
