//go:build !race

package flight_test

import (
	"testing"
	"testing/synctest"
)

// The storm with runs that end by themselves. The contexts of runs have timers
// then, too many for the race detector: see storm.caller.
func TestStormWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { rage(t, 2*s+s/2) })
}
