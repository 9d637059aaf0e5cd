// Package stripe counts events that many goroutines count at once.
package stripe

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Counters are eight counters. Most of the time each goroutine has a stripe to
// itself, so that it does not write to shared memory.
type Counters []stripe

type stripe struct {
	_ [64]byte // so that no two stripes share a cache line
	n [8]atomic.Uint64
}

// New returns Counters with enough stripes that goroutines seldom share one.
func New() Counters {
	return make(Counters, 1<<bits.Len(uint(8*runtime.GOMAXPROCS(0)-1)))
}

// Add adds one to the counter i < 8.
func (c Counters) Add(i uint8) { c[Pick(len(c))].n[i&7].Add(1) }

// Pick returns one of n stripes, from 0 on, for the calling goroutine: mostly the same one each time. n is a
// power of two. The address of its stack identifies a goroutine.
func Pick(n int) int {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here)) >> 11) // stacks are of 2 KiB at least
	at = at * 0x9e37_79b9_7f4a_7c15 >> 32
	return int(at & uint64(n-1))
}

// Sum returns the counter i < 8.
func (c Counters) Sum(i uint8) (n uint64) {
	for s := range c {
		n += c[s].n[i].Load()
	}
	return n
}
