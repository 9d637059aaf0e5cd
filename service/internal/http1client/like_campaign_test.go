//go:build system

package http1client_test

import "testing"

// TestLikeTransportCampaign is TestLikeTransport for the answer that is too slow for it.
func TestLikeTransportCampaign(t *testing.T) {
	likeTransport(t, func(text, _ string) bool { return len(text) <= 1<<20 })
}
