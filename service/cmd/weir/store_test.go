//go:build system

package main

import (
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// A lease of a rule that denies without the store is not renewed while that is away: its holder
// would have it for longer than the store.
func TestStoreLeaseAway(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, "redis-server", "--appendonly", "yes", "--appendfsync", "always")
	rules := file(t, "rules.yaml", `rules: [{name: strict, key: strict, away: deny, concurrency: {limit: 3}}, {name: lax, key: lax, concurrency: {limit: 3}}]`)
	s := serving(t, "--rules", rules, "--store", "redis://"+store.Addr, "--instances", "3", "--store-timeout", "2s")
	paths := map[string]string{}
	for _, key := range []string{"strict", "lax"} {
		paths[key] = s.lease(key)
	}
	store.Kill()
	for key, want := range map[string]int{"strict": 503, "lax": 200} {
		if a := s.post(paths[key]); a.status != want {
			t.Errorf("%s: %v: want %d", key, a, want)
		}
	}
	store.Run()
	for _, key := range []string{"strict", "lax"} {
		redistest.Until(t, key+" is renewed", func() error { return s.tryPost(paths[key]) })
	}
}
