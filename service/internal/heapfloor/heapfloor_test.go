package heapfloor

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
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

// The collector follows the live heap, and is as before in the end.
func TestKeep(t *testing.T) {
	t.Setenv("GOGC", "")
	const before = 150
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Keep(ctx); close(ended) }()
	await(t, "a small heap", func(p uint64) bool { return p > 2*standard })
	for range 3 { // each collection counts, not only the first one
		large := make([]byte, 2*floor)
		runtime.GC()
		await(t, "a large heap", func(p uint64) bool { return p == standard })
		runtime.KeepAlive(large)
		runtime.GC()
		await(t, "a small heap again", func(p uint64) bool { return p > 2*standard })
	}
	cancel()
	<-ended
	if got := gogc(); got != before {
		t.Errorf("%d %% in the end: want %d", got, before)
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

// await waits for a percentage. If it never comes, the test times out.
func await(t *testing.T, when string, good func(percent uint64) bool) {
	t.Helper()
	t.Logf("wait for the percentage of %s", when)
	for !good(gogc()) {
		time.Sleep(time.Millisecond)
	}
}

// gogc returns the percentage that is set.
func gogc() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
