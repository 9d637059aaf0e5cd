//go:build system

package main

import (
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// Requests with at_most get parts of limits in a store.
func TestAtMostInStore(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	s := serving(t, "--rules", file(t, "rules.yaml", atMostRules), "--store", "redis://"+store.Addr, "--store-timeout", "2s")
	expectParts(t, s.public)
}

// Requests with at_most get parts at a member that owns some of their keys.
func TestAtMostInPeers(t *testing.T) {
	t.Parallel()
	expectParts(t, startPeerFleet(t, "--rules", file(t, "rules.yaml", atMostRules)).urls[0])
}
