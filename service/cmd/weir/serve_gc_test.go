package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// Garbage has its room where little is in use, and half of what is in use where
// that is more.
func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		rule       string
		used, room uint64
		want       int
	}{
		{"the room, whatever is in use", 8 * mib, 16 * mib, 200},
		{"half of what is in use is the room", 32 * mib, 16 * mib, 50},
		{"half of what is in use is more", 90 * mib, 16 * mib, 50},
		{"not more than a sudden rise may make of it", 3 * mib, 16 * mib, 400},
		{"no room", 3 * mib, 0, 50},
		{"nothing is in use", 0, 16 * mib, 400},
		{"very much is in use", 1 << 50, 1 << 40, 50},
	} {
		if got := gcPercent(tt.used, tt.room); got != tt.want {
			t.Errorf("%s: of %d and %d: %d: want %d", tt.rule, tt.used, tt.room, got, tt.want)
		}
	}
}

// GOGC follows what each collection finds in use, up and down.
func TestPaceGC(t *testing.T) {
	gogc := func() uint64 {
		of := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(of)
		return of[0].Value.Uint64()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(123))

	t.Setenv("GOGC", "123")
	paceGC(1 << 40)()
	if got := gogc(); got != 123 {
		t.Errorf("GOGC is %d: want what the environment says", got)
	}

	t.Setenv("GOGC", "")
	runtime.GC()
	defer paceGC(2 * inUse())()
	if got := gogc(); got != leastGC {
		t.Errorf("GOGC is %d at first: want %d", got, leastGC)
	}
	for gogc() < 150 {
		runtime.GC()
	}
	much := make([]byte, 4*inUse())
	for gogc() > leastGC {
		runtime.GC()
	}
	runtime.KeepAlive(much)
	much = nil
	for gogc() < 150 {
		runtime.GC()
	}
}
