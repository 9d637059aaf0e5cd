package cache

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A Status is where the answer of a lookup comes from.
type Status uint8

const (
	Failed    Status = iota // there is no value: an error that was not kept before
	Hit                     // a fresh value, or an error that is kept
	Stale                   // a value that is no longer fresh
	Filled                  // a fill by this lookup
	Coalesced               // a fill by another lookup, at the same time
	statuses
)

var names = [statuses]string{"failed", "hit", "stale", "filled", "coalesced"}

// String returns the status as metrics and logs spell it.
func (s Status) String() string {
	if s < statuses {
		return names[s]
	}
	return "unknown"
}

// Stats are the counts since New, and the state.
type Stats struct {
	// Each lookup is counted in one of these.
	Hits      uint64 // answered by a fresh value, or a kept error
	Stale     uint64 // answered by a value that is no longer fresh
	Filled    uint64 // waited for a fill that it began
	Coalesced uint64 // waited for a fill that another began
	Failed    uint64 // ended with an error that was not kept before

	Fills    uint64 // begun, including background and rejected ones
	Rejected uint64 // fills that a limiter rejected
	Errors   uint64 // fills that failed otherwise
	Evicted  uint64 // entries evicted to make room
	Expired  uint64 // entries removed by Config.Sweep
	TooLarge uint64 // values not kept because they exceed Config.Bytes alone

	Entries int   // kept now, fresh or not
	Bytes   int64 // their share of Config.Bytes; 0 without it
}

// Stats returns the counts and the state. Lookups that end meanwhile may be
// counted or not.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	s.Entries = c.table.Load().entries
	if c.cfg.Bytes > 0 {
		s.Bytes = c.policy.cost()
	}
	c.mu.Unlock()
	for _, n := range []struct {
		status Status
		to     *uint64
	}{{Hit, &s.Hits}, {Stale, &s.Stale}, {Filled, &s.Filled}, {Coalesced, &s.Coalesced}, {Failed, &s.Failed}} {
		*n.to = c.lookups.sum(n.status)
	}
	return s
}

// counters count lookups by status. Most of the time each goroutine has a stripe
// to itself, so that hits do not write to shared memory.
type counters []stripe

type stripe struct {
	_ [64]byte // so that no two stripes share a cache line
	n [statuses]atomic.Uint64
	_ [64 - 8*statuses]byte
}

// newCounters returns enough stripes that goroutines seldom share one.
func newCounters() counters {
	return make(counters, 1<<bits.Len(uint(8*runtime.GOMAXPROCS(0)-1)))
}

// add counts a lookup. The address of its stack identifies a goroutine.
func (c counters) add(s Status) {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here)) >> 11) // stacks are of 2 KiB at least
	at = at * 0x9e37_79b9_7f4a_7c15 >> 32
	c[at&uint64(len(c)-1)].n[s].Add(1)
}

func (c counters) sum(s Status) (n uint64) {
	for i := range c {
		n += c[i].n[s].Load()
	}
	return n
}
