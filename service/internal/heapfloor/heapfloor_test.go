package heapfloor

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 2000, 1: 2000, 3 << 20: 2000, 4 << 20: 1600, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 40: 100,
	} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d %%: want %d", live, got, want)
		}
	}
}

// The percentage follows the live heap.
func TestKeepFollows(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(standard))
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan int, 100), make(chan struct{})
	go func() {
		keep(ctx, func(p int) { debug.SetGCPercent(p); changes <- p })
		close(ended)
	}()
	await := func(when string, good func(percent int) bool) { // if it never comes, the test times out
		t.Log("wait for the percentage of", when)
		for !good(<-changes) {
		}
	}
	await("a small heap", func(p int) bool { return p > 2*standard })
	for range 3 { // each collection counts, not only the first one
		large := make([]byte, 2*floor)
		runtime.GC()
		await("a large heap", func(p int) bool { return p == standard })
		runtime.KeepAlive(large)
		runtime.GC()
		await("a small heap again", func(p int) bool { return p > 2*standard })
	}
	cancel()
	<-ended
}

// In the end, the percentage is as before.
func TestKeep(t *testing.T) {
	t.Setenv("GOGC", "")
	const before = 150
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Keep(ctx)
	if got := gogc(); got != before {
		t.Errorf("%d %%: want %d", got, before)
	}
}

// If the operator has set the percentage, it stays.
func TestKeepGOGC(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := gogc()
	Keep(t.Context())
	if got := gogc(); got != before {
		t.Errorf("%d %%: want %d, as before", got, before)
	}
}

// gogc returns the percentage that is set.
func gogc() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
