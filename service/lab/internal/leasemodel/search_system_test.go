//go:build system && !race

package leasemodel

import "testing"

// The same as TestLimit within wider bounds: 4.8 million states.
func TestLimitFurther(t *testing.T) {
	for _, c := range []Config{
		{Crashes: 1, Changes: 1, Losses: 1},
		{Changes: 2, Losses: 1},
		{Crashes: 1, Changes: 2},
		{Crashes: 2, Changes: 1},
		{Crashes: 1, Stops: 1, Changes: 1},
		{Changes: 2, Overlap: true},
		{Crashes: 1, Changes: 1, Overlap: true},
		{Stops: 1, Changes: 1, Overlap: true},
	} {
		c.holds(t)
	}
}
