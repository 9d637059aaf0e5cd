// Package decidertest tells the same stories to every implementation of decider.Decider, in virtual time.
package decidertest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// rigs returns the implementations.
func rigs(t *testing.T) []*rig {
	all := []*rig{
		{name: "toy", make: newToy, traits: traits{Alone: true}},
		{name: "memory", of: []string{"server.Server"}, make: newMemory, traits: traits{Alone: true}},
		{name: "owner", of: []string{"ring.Ring"}, make: newFleet(false), traits: traits{Fleet: true}},
		{name: "member", of: []string{"ring.Ring"}, make: newFleet(true), traits: traits{Fleet: true}},
		{name: "link", of: []string{"peer.Client"}, make: newLinked, traits: traits{Link: true}},
		{name: "weir.v1", make: newGRPC, traits: traits{Wire: true, Alone: true}},
		{name: "HTTP", make: newHTTP, traits: traits{Wire: true, Alone: true}},
		{name: "fallback", make: newFallback, traits: traits{Share: true, Alone: true}},
		{name: "leaf", of: []string{"server.Tier"}, make: newTier(server.TierConfig{Leaves: 3}), traits: traits{Leaf: true}},
		{name: "leaf of a leaf", of: []string{"server.Tier"}, make: newTiers(server.TierConfig{Leaves: 3}), traits: traits{Leaf: true}},
	}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		at, cfg := stores[name](t), server.StoreConfig{Known: -1, Instances: 3}
		all = append(all,
			&rig{name: name, of: []string{"server.Shared"}, traits: traits{Store: true}, make: func(t *testing.T, rules *config.Rules) (*node, error) {
				return newShared(t, at, rules, cfg)
			}},
			&rig{name: "nodes of " + name, traits: traits{Store: true, Nodes: true}, make: func(t *testing.T, rules *config.Rules) (*node, error) {
				return newPair(t, at, rules, cfg)
			}},
			&rig{name: "leaf of " + name, traits: traits{Store: true, Leaf: true}, make: func(t *testing.T, rules *config.Rules) (*node, error) {
				return newStoreLeaf(t, at, rules, cfg)
			}},
		)
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
			if r.untold > r.told/10 {
				t.Errorf("%d calls are not told, and %d are", r.untold, r.told)
			}
		})
	}
}

var declares = regexp.MustCompile(`(?m)^var _ decider\.Decider = \(\*(\w+)\)\(nil\)`)

// Each type that declares to be a Decider has a rig, and there are seven rigs or more.
func TestEveryDecider(t *testing.T) {
	all, of := rigs(t), map[string]bool{}
	for _, r := range all {
		for _, name := range r.of {
			of[name] = true
		}
	}
	if len(all) < 7 {
		t.Errorf("%d rigs", len(all))
	}
	found := 0
	if err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declares.FindAllSubmatch(text, -1) {
			name := filepath.Base(filepath.Dir(path)) + "." + string(m[1])
			if found++; !of[name] {
				t.Errorf("%s: %s has no rig", path, name)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no type declares to be a Decider")
	}
}
