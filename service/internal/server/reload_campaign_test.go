//go:build system

package server_test

import "testing"

// TestReloadStormCampaign is TestReloadStorm with more seeds.
func TestReloadStormCampaign(t *testing.T) { reloadStorm(t, 10) }

// TestReloadKeepsTheOrderOfLeasesCampaign is TestReloadKeepsTheOrderOfLeases with more seeds.
func TestReloadKeepsTheOrderOfLeasesCampaign(t *testing.T) { orderOfLeases(t, 40) }
