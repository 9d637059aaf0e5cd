package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Bounds on GOGC: how much garbage there may be for what is in use, in percent.
const (
	// leastGC makes the garbage collector run more often than it would by itself:
	// counts hold no pointers, so to go through them costs little.
	leastGC = 50
	// mostGC bounds what a sudden rise of what is in use can make of the heap.
	mostGC = 400
)

// paceGC lets garbage have room bytes, or leastGC of what is in use where that is
// more, until stop is called. Else a server with few keys, whose heap is small,
// would collect garbage dozens of times a second. It does nothing where the
// environment says GOGC.
func paceGC(room uint64) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &gcPacer{room: room, percent: leastGC}
	debug.SetGCPercent(leastGC)
	p.await()
	return func() { p.stopped.Store(true) }
}

// A gcPacer sets GOGC after each collection, by what that has found in use.
type gcPacer struct {
	room    uint64
	percent int // as it was set last
	stopped atomic.Bool
}

// await waits for the next collection, at the end of which what nothing refers to
// is cleaned up.
func (p *gcPacer) await() {
	type sentinel struct{ _ *int } // with a pointer: what has none may share its memory with what lives on
	runtime.AddCleanup(new(sentinel), (*gcPacer).collected, p)
}

func (p *gcPacer) collected() {
	if p.stopped.Load() {
		return
	}
	// It stops the world to set it: not for little.
	if percent := gcPercent(inUse(), p.room); percent < p.percent || percent > p.percent+p.percent/8 {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	p.await()
}

// gcPercent returns the GOGC by which garbage has the room, within the bounds.
func gcPercent(used, room uint64) int {
	return int(min(max(room*100/max(used, 1), leastGC), mostGC))
}

// inUse returns what the last collection found in use, in bytes: of what GOGC is
// a percentage of.
func inUse() (n uint64) {
	of := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(of)
	for i := range of {
		n += of[i].Value.Uint64()
	}
	return n
}
