package gate

// Lend takes all free units out as a credit, from which a shell may admit
// requests, and to which it may put the units of those that leave, without
// asking the gate. While it is out, the credit counts as in
// flight: Inflight is what the gate itself admitted and has not seen leave,
// plus the credit. No other method may be called until Return, but for those
// that only read.
//
// There is none while anyone waits, or somebody has just tried to and the next
// departure is to show how fast that would have been; while more is in flight
// than the limit; or with partitions, where a unit is not just a unit. A credit of nothing is one:
// units may be put into it.
func (g *Gate[W]) Lend() (free int, ok bool) {
	free = g.alg.Limit() - g.stats.Inflight
	if free < 0 || g.Waiting() > 0 || len(g.cfg.Partitions) > 0 || g.work.Demand {
		return 0, false
	}
	g.stats.Inflight += free
	return free, true
}

// Return ends a credit: free units of it are not in use now. Meanwhile so many
// requests were admitted from it, and so many of all that were in flight left
// with success. Afterwards, Inflight is again the units of all requests that
// were admitted, by the gate or from the credit, and have not left. Since the
// units of a request may leave into the credit although the gate had admitted
// it, free may be more than was lent. It panics if it is more than is in
// flight.
func (g *Gate[W]) Return(free int, admitted, succeeded uint64) {
	if free < 0 || free > g.stats.Inflight-g.stats.Held {
		panic("gate: more units are returned than have been lent or entered")
	}
	g.stats.Inflight -= free
	g.stats.Admitted += admitted
	g.stats.Success += succeeded
}
