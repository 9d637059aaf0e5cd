package server

import "github.com/weir-go/weir"

// LeaseStats counts the leases of a rule.
type LeaseStats struct {
	Held, Waiting int // units; requests
	// Keys have a limit: it is in use, or kept for what it has learnt. Limit is
	// theirs together, in units.
	Keys, Limit                int
	Granted, Returned, Expired uint64
	Renewed                    uint64
	Refused                    map[weir.Reason]uint64
	Cancelled                  uint64 // left while waiting, or ran out of time
	Shadowed                   uint64 // granted, but for the mode they would have been refused, or have waited
	Waits                      Waits  // of those who stood in line and were let in
}

// LeaseState is what is known of the leases of one key: units in flight, and
// requests that wait.
type LeaseState struct {
	Limit, Inflight, Waiting int
}

func (g *gates) stats() LeaseStats {
	st := LeaseStats{
		Held: int(g.held.Load()), Waiting: int(g.waiting.Load()), Limit: int(g.limit.Load()),
		Granted: g.granted.Load(), Returned: g.returned.Load(), Expired: g.expired.Load(), Renewed: g.renewed.Load(),
		Refused: map[weir.Reason]uint64{}, Cancelled: g.left.Load(), Shadowed: g.shadowed.Load(), Waits: g.waits.load(),
	}
	for why := range g.refused {
		if n := g.refused[why].Load(); n > 0 {
			st.Refused[weir.Reason(why)] = n
		}
	}
	g.mu.Lock()
	st.Keys = len(g.doors)
	g.mu.Unlock()
	return st
}

// state returns what is known of a key; nil if the rule does not lease.
func (g *gates) state(r *Rule, key string) *LeaseState {
	if r.Concurrency == nil {
		return nil
	}
	g.mu.Lock()
	d := g.doors[r.bucket(key)]
	g.mu.Unlock()
	if d == nil {
		return &LeaseState{Limit: algorithm(r.Concurrency, 0).Limit()}
	}
	st := d.limiter.Stats()
	return &LeaseState{Limit: st.Limit, Inflight: st.Inflight, Waiting: st.Waiting}
}
