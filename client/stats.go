package client

import "sync/atomic"

type counters struct {
	asked, requests, failures, late atomic.Uint64
	localAllowed, localDenied       atomic.Uint64
	returned, dropped, lost         atomic.Uint64
	waiting                         atomic.Int64
}

// Stats is the state of a Client, and what it has done so far.
type Stats struct {
	Away    bool // the server is taken to be away
	Waiting int  // requests that wait at the server
	Leases  int  // held

	Asked    uint64 // calls of Take and of Acquire for tokens
	Requests uint64 // HTTP requests of all kinds: fewer than Asked if many came at once
	Failures uint64 // requests without an answer that makes sense
	Late     uint64 // calls whose answer did not come in time, although their request had not failed
	// LocalAllowed and LocalDenied were decided by the Client itself, for tokens and
	// for leases.
	LocalAllowed, LocalDenied uint64
	// Returned are true costs that were told, and leases given back; Dropped are
	// those that could not be: the tokens come back in time, a lease at its end.
	Returned, Dropped uint64
	Lost              uint64 // leases that ran out, or that the server did not know any more
}

// Stats returns the state, and the counts.
func (c *Client) Stats() Stats {
	n := &c.counts
	return Stats{
		Away: c.circuit.open.Load(), Waiting: int(n.waiting.Load()), Leases: c.keeper.held(),
		Asked: n.asked.Load(), Requests: n.requests.Load(), Failures: n.failures.Load(), Late: n.late.Load(),
		LocalAllowed: n.localAllowed.Load(), LocalDenied: n.localDenied.Load(),
		Returned: n.returned.Load(), Dropped: n.dropped.Load(), Lost: n.lost.Load(),
	}
}
