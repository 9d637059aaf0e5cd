//go:build system && !race

package httplimit_test

import (
	"fmt"
	"testing"
	"time"
)

// TestStreetCampaign is TestStreet with more kinds of clients.
func TestStreetCampaign(t *testing.T) {
	for _, patience := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 10 * time.Second} {
		for _, tries := range []int{1, 3} {
			for _, goesOn := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, %d tries, goes on: %v", patience, tries, goesOn), func(t *testing.T) {
					s := street{routes: three, patience: patience, tries: tries, goesOn: goesOn}
					s.check(t, 5, 8, 12, 20)
				})
			}
		}
	}
}
