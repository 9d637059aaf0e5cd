package heapfloor

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1: 400, 4 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 40: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d %%: want %d", live, got, want)
		}
	}
}

// The collector is as before in the end, and untouched if the operator has set it.
func TestKeep(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	const before = 150
	for gogc, want := range map[string]int{"": 400, "50": before} {
		t.Setenv("GOGC", gogc)
		debug.SetGCPercent(before)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { Keep(ctx); close(ended) }()
			synctest.Wait()
			got := debug.SetGCPercent(want)
			if got != want {
				t.Errorf("GOGC=%q: %d %%: want %d", gogc, got, want)
			}
			cancel()
			<-ended
		})
		if got := debug.SetGCPercent(before); got != before {
			t.Errorf("GOGC=%q: %d %% in the end: want %d", gogc, got, before)
		}
	}
}
