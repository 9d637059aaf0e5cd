package leaf

import "time"

// A Pass gathers the reports of one exchange from the Keys of a leaf.
type Pass struct {
	Reports []Report

	Now  time.Duration // of the exchange
	TTL  time.Duration // of assignments
	Full bool          // it looks at all keys, not only at the urgent ones
	Most int           // reports
	More bool          // there was no room for all
}

// chunk bounds the entries that one Collect looks at.
const chunk = 128

// Collect adds reports to a Pass, and returns whether these Keys have no more. One call
// looks at a bounded number of keys, so that an owner can give its lock to others between
// calls.
func (k *Keys) Collect(p *Pass) (done bool) {
	p.Now = k.clock(p.Now)
	for range min(chunk, len(k.urgent)) {
		e := k.urgent[len(k.urgent)-1]
		if !p.room() {
			return true
		}
		k.urgent = k.urgent[:len(k.urgent)-1]
		e.urgent = false
		if e.index >= 0 {
			e.force = true
			k.look(p, e)
		}
	}
	if len(k.urgent) > 0 {
		return false
	}
	if !p.Full {
		return true
	}
	for range chunk {
		if k.scan >= len(k.list) {
			k.scan, k.resync = 0, false
			return true
		}
		if !p.room() {
			return true
		}
		e := k.list[k.scan]
		e.force = e.force || k.resync && e.assigned
		k.look(p, e)
		if k.scan < len(k.list) && k.list[k.scan] == e { // it was not removed
			k.scan++
		}
	}
	return false
}

func (p *Pass) room() bool {
	p.More = p.More || len(p.Reports) >= p.Most
	return !p.More
}

// How long a key is kept after its last request.
const (
	unassignedFor = 5 * time.Second // without an assignment
	shareFor      = 5 * time.Minute // while the upstream is away, if the limit is known
)

// keepFor returns how long an entry is kept after its last request.
func (k *Keys) keepFor(p *Pass, e *entry, live bool) time.Duration {
	switch known := e.sharing || e.limit != (Limit{}); {
	case live:
		return p.TTL
	case known && k.away(p.Now):
		return max(p.TTL, shareFor)
	case known:
		return p.TTL
	}
	return unassignedFor
}

// look adds a report about an entry, if one is due, and forgets the entry if it is idle.
func (k *Keys) look(p *Pass, e *entry) {
	if e.ending {
		return
	}
	live := k.live(p.Now, e)
	if p.Now >= e.last+k.keepFor(p, e, live) && !e.queued && e.relay == nil && e.rested(p.Now, k) {
		k.end(p, e, live)
		return
	}
	has := k.sample(p.Now, e)
	if !e.force && !k.due(p, e, live) {
		return
	}
	p.Reports = append(p.Reports, Report{Key: e.key, Used: max(e.used, 0), Wants: e.wants(), Has: has})
	e.used = min(e.used, 0)
	e.reported, e.reportedAt, e.force = e.wants(), p.Now, false
}

// sample measures the demand for an entry, and returns the rate that the key may use now.
func (k *Keys) sample(now time.Duration, e *entry) (has float64) {
	has, limit := k.has(now, e, k.live(now, e))
	if e.relay != nil {
		e.relay.fall.sample(now, &e.demand)
	}
	e.demand.sample(now, has, limit)
	return has
}

// rested reports whether the bucket is full. Until then, a settlement can change what it has, so the
// key is not forgotten.
func (e *entry) rested(now time.Duration, k *Keys) bool {
	e.refill(now, k)
	return e.tokens >= e.size
}

// end forgets an idle entry. If the upstream may count an assignment, it is given back
// first.
func (k *Keys) end(p *Pass, e *entry, live bool) {
	if !live && !e.force {
		k.remove(e)
		return
	}
	if live {
		k.held--
	}
	e.assigned, e.unlimited, e.sharing, e.ending, e.force = false, false, false, true, false
	p.Reports = append(p.Reports, Report{Key: e.key, Used: max(e.used, 0), Done: true})
	e.used = 0
}

// has returns the rate that the key may use now, and the limit of what its callers can want.
func (k *Keys) has(now time.Duration, e *entry, live bool) (has, limit float64) {
	limit = e.limit.Rate
	if limit == 0 {
		limit = e.policy.Limit.Rate
	}
	switch {
	case e.unlimited:
		return 0, 0
	case live:
		return e.whole(), limit
	case e.sharing && e.relay != nil:
		return e.refill(now, k).Rate + e.relay.passed.Rate, limit
	case e.sharing:
		return e.refill(now, k).Rate, limit
	}
	return 0, limit
}

// Parts of a rate by which wants must change to be reported.
const (
	watchedBand = 0.02  // of a contended key, and of one that wants more than it has
	staleBand   = 0.005 // of such a key that has not been reported for an eighth of the time to live
	hungryBand  = 0.25  // of a contended key that wants much more than it has
	calmBand    = 0.1   // of a key that is not contended
	hungry      = 1.5   // times what it has
	near        = 0.8   // of what it has: wants below do not matter if the key is not contended
)

// due reports whether a report about an entry is due.
func (k *Keys) due(p *Pass, e *entry, live bool) bool {
	wants, told, rate := e.wants(), e.reported, e.whole()
	noise := e.demand.deviation(max(wants, told))
	change := max(wants-told, told-wants)
	switch {
	case !live:
		return p.Now >= e.retryAt && e.last > e.reportedAt
	case p.Now >= e.reportedAt+e.silence(p):
		return true
	case e.unlimited:
		return false
	case e.contended && min(wants, told) > hungry*rate:
		return change > hungryBand*told+noise
	case e.contended, wants > rate:
		return change > watchedBand*told+noise || change > staleBand*told && p.Now >= e.reportedAt+p.TTL/8
	case wants > told:
		return wants > near*rate && change > calmBand*told+3*noise
	}
	return told > rate/2 && change > told/2+3*noise
}

// Longest times without a report, in times to live: of a contended key that is used, and of others.
// The upstream ends assignments of a key after 16.
const (
	contendedSilence = 2
	calmSilence      = 12
)

// silence returns how long a key may be without a report.
func (e *entry) silence(p *Pass) time.Duration {
	longest := calmSilence * p.TTL
	if e.contended && e.used > 0 {
		longest = contendedSilence * p.TTL
	}
	return longest - longest/2*time.Duration(e.spread)/256
}

// Unsent takes back the reports of a Pass after its exchange has failed.
func (k *Keys) Unsent(p *Pass) {
	for i := range p.Reports {
		k.Return(&p.Reports[i])
	}
}

// Return takes back a report after its exchange has failed. It does nothing if these Keys do not
// have the key.
func (k *Keys) Return(r *Report) {
	if e := k.entries.find(r.Key); e != nil {
		e.used += r.Used
		e.ending, e.force = false, true
		if r.Done {
			e.limit = Limit{} // it is not kept for the sake of its limit
		}
	}
}
