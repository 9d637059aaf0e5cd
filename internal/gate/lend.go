package gate

// Lend takes all free units out as a credit. A shell may admit requests from it, and put
// units that are released into it, without asking the gate. The credit counts as in flight.
// Until Return only methods that read may be called.
//
// There is no credit after Close, while requests wait, while the pace of departures is being
// measured for a request that has just tried to, while more is in flight than the limit, or
// with partitions. A credit of 0 units is one: units may be put into it.
func (g *Gate[W]) Lend() (free int, ok bool) {
	free = g.alg.Limit() - g.stats.Inflight
	if g.closed || free < 0 || g.Waiting() > 0 || len(g.cfg.Partitions) > 0 || g.work.Demand {
		return 0, false
	}
	g.stats.Inflight += free
	return free, true
}

// Return ends a credit: free units of it are not in use now, admitted requests were admitted
// from it, and succeeded ones left with success meanwhile. Afterwards Inflight is again the
// units of all requests that have not left. free may exceed what was lent, because requests
// of the gate may leave into the credit. Return panics if it exceeds what is in flight.
func (g *Gate[W]) Return(free int, admitted, succeeded uint64) {
	if free < 0 || free > g.stats.Inflight-g.holds.Units() {
		panic("inflight: more units are returned than have been lent or entered")
	}
	g.stats.Inflight -= free
	g.stats.Admitted += admitted
	g.stats.Success += succeeded
}
