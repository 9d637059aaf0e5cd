package client

import "sync/atomic"

type counters struct {
	requests, failures, late, local atomic.Uint64
	dropped, lost                   atomic.Uint64
	waiting                         atomic.Int64
}

// Stats are the state of a Client, and its counts since New.
type Stats struct {
	Away    bool // the Client considers the server away
	Waiting int  // calls that wait at the server
	Leases  int  // held

	Requests uint64 // HTTP requests of all kinds; one may ask for many calls
	Failures uint64 // requests without a valid answer
	Late     uint64 // calls that got no answer within Timeout
	Local    uint64 // calls, for tokens and for leases, that the Client decided itself
	// Dropped are the costs and the leases that could not be reported to the server.
	// Their tokens return with time, and their leases expire.
	Dropped uint64
	Lost    uint64 // leases that expired, or that the server no longer knew

	Leaf LeafStats // of a Client with Config.Leaf
}

// Stats returns the state and the counts. They are read one after the other.
func (c *Client) Stats() Stats {
	n := &c.counts
	c.leases.mu.Lock()
	held := len(c.leases.held)
	c.leases.mu.Unlock()
	return Stats{
		Leaf: c.leafStats(),
		Away: c.circuit.Open(), Waiting: int(n.waiting.Load()), Leases: held,
		Requests: n.requests.Load(), Failures: n.failures.Load(), Late: n.late.Load(), Local: n.local.Load(),
		Dropped: n.dropped.Load(), Lost: n.lost.Load(),
	}
}
