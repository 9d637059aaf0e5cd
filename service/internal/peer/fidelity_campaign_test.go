//go:build system

package peer_test

import "testing"

// TestFidelityCampaign is TestFidelity with more seeds.
func TestFidelityCampaign(t *testing.T) { fidelity(t, 20) }
