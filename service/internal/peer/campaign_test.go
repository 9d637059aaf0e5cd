//go:build system

package peer

import "testing"

// TestFidelityCampaign is TestFidelity with more seeds.
func TestFidelityCampaign(t *testing.T) { fidelity(t, 20) }

// TestVerdictsCampaign is TestVerdicts with more verdicts.
func TestVerdictsCampaign(t *testing.T) { verdicts(t, 20_000) }
