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
	// Lookups counts lookups by where their answers came from. All five are
	// present, and the map belongs to the caller.
	Lookups map[Status]uint64

	Fills    uint64 // begun, including background and rejected ones
	Rejected uint64 // fills that a limiter rejected
	Errors   uint64 // fills that failed otherwise
	Evicted  uint64 // entries evicted to make room
	Expired  uint64 // entries removed by Config.Sweep
	TooLarge uint64 // values not kept because each was larger than Config.Bytes by itself

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
	s.Lookups = make(map[Status]uint64, statuses)
	for status := range statuses {
		s.Lookups[status] = c.lookups.sum(status)
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
