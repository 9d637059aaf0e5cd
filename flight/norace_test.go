//go:build !race

package flight_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// The storm in a bubble, which sees that no goroutine is left; and with runs
// that end by themselves.
func TestStormInBubble(t *testing.T) {
	for _, timeout := range []time.Duration{0, 2*s + s/2} {
		synctest.Test(t, func(t *testing.T) {
			st := &storm{t: t, nap: sleep, bubble: true}
			st.group.Timeout = timeout
			rage(st)
			time.Sleep(time.Minute) // for callers that would still cancel
		})
	}
}
