package cache

import "github.com/weir-go/weir/internal/stripe"

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
	TooLarge uint64 // values not kept because each was larger than Config.Bytes by itself

	Entries int   // kept now, fresh or not
	Bytes   int64 // their share of Config.Bytes; 0 without it
}

// Stats returns the counts and the state. They are read one after the other.
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
		s.Lookups[status] = c.lookups.Sum(uint8(status))
	}
	return s
}

// counters counts lookups by their Status. Its method is inlined where a Cache is
// instantiated; a call of stripe.Counters.Add would not be.
type counters struct{ stripe.Counters }

func (c counters) add(s Status) { c.Add(uint8(s)) }
