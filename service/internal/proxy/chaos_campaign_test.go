//go:build system

package proxy_test

import "testing"

// TestChaosCampaign is TestChaos with more requests.
func TestChaosCampaign(t *testing.T) { chaosOf(t, 10_000) }
