//go:build system && !race

package arena

import "testing"

// TestAcceptanceCampaign is TestAcceptance with more seeds.
func TestAcceptanceCampaign(t *testing.T) { acceptance(t, 3) }

// TestAcceptanceStreetCampaign is TestAcceptanceStreet with more seeds.
func TestAcceptanceStreetCampaign(t *testing.T) { acceptanceStreet(t, 5) }

// TestAcceptanceProductionCampaign is TestAcceptanceProduction with more seeds.
func TestAcceptanceProductionCampaign(t *testing.T) { acceptanceProduction(t, 3) }
