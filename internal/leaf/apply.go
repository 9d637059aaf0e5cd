package leaf

import "time"

// A Lease says until when assignments are valid. The zero Lease has ended, of an upstream
// that is away.
type Lease struct {
	// Until is the end of all assignments.
	Until time.Duration
	// Away is the instant from which the upstream counts as away.
	Away time.Duration
	// Free is the instant by which the assignments of all leaves have ended, if the upstream
	// does not come back. From then on each leaf may use its safe share; before, it uses at
	// most that and what it had.
	Free time.Duration
}

// Renew sets the lease. It must come before Apply with the assignments of the same answer.
func (k *Keys) Renew(now time.Duration, l Lease) {
	now = k.clock(now)
	if ended := k.lease.Until; now >= ended && l.Until != ended {
		k.term++
		k.termAt, k.held = now, 0
	}
	k.lease = l
}

// Apply takes in the assignments of an answer to the exchange of a Pass.
func (k *Keys) Apply(now time.Duration, p *Pass, a *Answer) {
	for i := range a.Assignments {
		k.Assign(now, &a.Assignments[i])
	}
	for _, key := range a.Watch {
		k.Watch(key)
	}
	for i := range p.Reports {
		if p.Reports[i].Done {
			k.Ended(p.Now, p.Reports[i].Key)
		}
	}
	if a.Resync {
		k.Resync()
	}
}

// Ended forgets a key that the upstream knows to be done, unless it has been asked for since
// the exchange, at the instant sent.
func (k *Keys) Ended(sent time.Duration, key string) {
	e := k.entries.find(key)
	switch {
	case e == nil || !e.ending:
	case e.last >= sent:
		e.ending, e.reportedAt = false, -1
		k.rush(e)
	default:
		k.remove(e)
	}
}

// Watch has a contended key reported soon: its share has changed by the demand of other leaves.
func (k *Keys) Watch(key string) {
	if e := k.entries.find(key); e != nil && e.assigned && !e.ending {
		e.contended = true
		k.rush(e)
	}
}

// Resync has every key with an assignment reported.
func (k *Keys) Resync() { k.resync, k.scan = true, 0 }

// Assign takes in an assignment. It does nothing if these Keys do not have the key.
func (k *Keys) Assign(now time.Duration, a *Assignment) {
	e := k.entries.find(a.Key)
	if e == nil || e.ending {
		return
	}
	now = k.clock(now)
	live := k.live(now, e)
	switch {
	case a.Learning && a.Error == "":
		return
	case a.Error != "":
		if live {
			k.held--
		}
		e.assigned, e.unlimited, e.sharing = false, false, false
		e.retryAt = now + refusedFor
		return
	}
	uses, had := live || e.sharing, 0.0
	if uses {
		had = e.refill(now, k).Rate
	} else {
		e.drop()
		e.at = now
	}
	if !live {
		k.held++
	}
	e.assigned, e.sharing, e.term, e.contended = true, false, k.term, a.Contended
	e.unlimited = a.Unlimited
	e.rate, e.burst = validOrZero(a.Rate), validOrZero(a.Burst)
	rate := e.rate
	if r := e.relay; r != nil {
		if had += r.passed.Rate; live {
			had = max(r.assigned.Rate, r.passed.Rate)
		}
		r.assigned = Limit{e.rate, e.burst}
		rest := r.rest(r.assigned)
		e.rate, e.burst = rest.Rate, rest.Burst
	}
	if a.LimitRate > 0 || a.LimitBurst > 0 {
		e.limit, e.leaves = Limit{validOrZero(a.LimitRate), validOrZero(a.LimitBurst)}, max(a.Leaves, 1)
	}
	e.fill(now, Limit{e.rate, e.burst})
	switch {
	case rate < had*(1-watchedBand) && e.contended && !e.unlimited:
		k.rush(e) // so that the upstream can give the rest to others
	case rate > had || e.unlimited:
		k.wake(e)
	}
}

// refusedFor is how long a key that the upstream refuses to assign is not reported again.
const refusedFor = 10 * time.Second
