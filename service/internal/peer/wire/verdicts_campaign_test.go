//go:build system

package wire

import "testing"

// TestVerdictsCampaign is TestVerdicts with more verdicts.
func TestVerdictsCampaign(t *testing.T) { verdicts(t, 20_000) }
