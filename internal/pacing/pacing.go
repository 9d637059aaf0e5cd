// Package pacing decides when a client may send its next request to a server that
// has asked it to slow down. It is the pure core that httpclient and grpclimit
// share; package outgoing puts a queue, a lock and a clock around it.
package pacing

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

// After a wait, requests go one after the other, a gap apart. Each good answer
// halves the gap, and below leastGap there is none, so that nine good answers lift
// the pacing.
const (
	firstGap = 100 * time.Millisecond
	leastGap = 200 * time.Microsecond
)

// maxDelay bounds the random delay that is added to a wait.
const maxDelay = time.Second

// MaxWait is longer than any wait. It can be added to an instant without overflow.
const MaxWait = 100 * 365 * 24 * time.Hour

// maxLimits bounds the service limits that a Pacer keeps.
const maxLimits = 16

// A Pacer knows when the next request to a server may be sent. It is pure: instants
// are durations since any fixed epoch, and chance is an argument.
//
// It is closed until the wait that the server asked for is over, and while a service
// limit with a known end is used up. Then it opens, with a random delay, because other
// clients were told the same instant, and lets requests go a gap apart. If the units of
// a limit are known to return one by one, it lets a request go for each.
type Pacer struct {
	MaxHold time.Duration // bounds the time for which an answer closes the Pacer

	limits      []quota                      // at most maxLimits
	policyLines []string                     // the last valid RateLimit-Policy field
	policies    []ratelimitfield.QuotaPolicy // its items

	quotaUntil time.Duration // the wait for the quota of this client
	busyUntil  time.Duration // the wait for an overloaded server; a good answer ends it
	reason     weir.Reason   // why the Pacer is or was last closed

	sent   uint64        // requests sent: the number of the last one
	closed uint64        // requests sent when the Pacer was last closed
	gap    time.Duration // between requests; 0 if there is none
	last   time.Duration // when the last request was sent
	recent recent        // requests that the server may not have counted yet
}

// A quota is the state of a service limit: as of the answer to the request heard,
// less the requests sent since.
type quota struct {
	name, partition string
	mixed           bool // its items have named several partitions
	uncounted       bool // its units are not requests
	heard           uint64
	known           uint64 // the last request sent when it was heard
	remaining       int64
	since, ends     time.Duration
	gap             time.Duration // the mean time until a unit returns; 0 if it is not known
	refused         bool          // the answer was a refusal
}

// steadyGap is the unit of reset times. The reset time of a quota of which a unit
// returns sooner says nothing.
const steadyGap = time.Second

// opens returns when q lets the next request go; it may go now if that is not
// after now. A quota with several partitions lets all requests go, since it is not
// known which partition is used up.
//
// The server had at least the units that it reported, one more returns each gap, and
// every request sent since uses one. So a request sent at that instant does not exceed
// the quota, however long it takes to arrive.
func (q *quota) opens(now time.Duration) time.Duration {
	switch {
	case q.remaining > 0 || q.mixed || now >= q.ends:
		return now
	case q.gap > 0 && q.gap < steadyGap && !q.refused:
		return min(q.since+q.gap*time.Duration(1-q.remaining), q.ends)
	default:
		return q.ends
	}
}

// An Opening is when requests may go again, as far as the server has said. If At
// is not after now, they may go.
type Opening struct {
	At     time.Duration
	Reason weir.Reason // why not before

	gap time.Duration // between requests afterwards, if it is known
}

// Opens returns the Opening at now.
func (p *Pacer) Opens(now time.Duration) Opening {
	o := Opening{At: p.quotaUntil, Reason: weir.OverRate}
	if p.busyUntil > o.At {
		o = Opening{At: p.busyUntil, Reason: weir.Throttled}
	}
	for i := range p.limits {
		if at := p.limits[i].opens(now); at > now && at > o.At {
			o = Opening{at, weir.OverRate, p.limits[i].gap}
		}
	}
	return o
}

// Next returns when the next request may be sent, unless an answer changes it: at
// the Opening or, if that is later, a gap after the last request.
func (p *Pacer) Next(now time.Duration) time.Duration {
	at := p.Opens(now).At
	if p.gap > 0 {
		at = max(at, p.last+p.gap)
	}
	return at
}

// Reason returns why the Pacer is or was last closed: OverRate if the client has
// used up its quota, Throttled if the server is overloaded.
func (p *Pacer) Reason() weir.Reason { return p.reason }

// Send counts a request that is sent, and returns its number.
func (p *Pacer) Send(now time.Duration) uint64 {
	p.sent++
	p.last = now
	p.recent.send(now, p.sent)
	for i := range p.limits {
		if q := &p.limits[i]; !q.uncounted {
			q.remaining--
		}
	}
	p.update(now, now)
	return p.sent
}

// Cancel takes back a request that was not sent after all.
func (p *Pacer) Cancel(now time.Duration, number uint64) {
	before := p.Opens(now).At
	p.recent.done(number)
	for i := range p.limits {
		if q := &p.limits[i]; !q.uncounted && q.heard < number {
			q.remaining++
		}
	}
	p.update(now, before)
}

// update sets the gap after a change; before is when the Pacer opened before the
// change. If it is closed now, there will be a gap after it opens; if the change
// has opened it, rather than time, there is none.
func (p *Pacer) update(now, before time.Duration) {
	switch o := p.Opens(now); {
	case o.At > now:
		if before <= now {
			p.closed = p.sent
		}
		p.reason = o.Reason
		p.gap = min(cmp.Or(o.gap, firstGap), firstGap)
	case before > now:
		p.gap = 0
	}
}

// An Answer is the part of a server's answer that pacing depends on.
type Answer struct {
	Number   uint64        // of the request; 0 if it was sent before there was a Pacer
	Overload bool          // the request was refused, or failed for the moment
	Busy     bool          // because the server is overloaded
	Refused  bool          // because the client has used up its quota
	Waits    bool          // the answer asks for a wait of After
	After    time.Duration // 0 unless Waits is set

	Limits []ratelimitfield.ServiceLimit
	Policy []string // the lines of RateLimit-Policy: see ratelimitfield.PolicyLines
}

// Answer counts the answer to a request; u is evenly distributed in [0, 1).
func (p *Pacer) Answer(now time.Duration, a *Answer, u float64) {
	before := p.Opens(now).At
	p.recent.done(a.Number)
	p.setPolicy(a.Policy)
	if !a.Overload {
		p.good(now, a.Number)
	}
	for _, l := range a.Limits {
		if a.Waits { // it takes precedence over the limits of the same answer
			p.forget(l)
		} else {
			p.learn(now, a, l, u)
		}
	}
	if end := p.later(now, a.After, u); a.Busy {
		p.busyUntil = max(p.busyUntil, end)
	} else {
		p.quotaUntil = max(p.quotaUntil, end)
	}
	p.update(now, before)
}

// setPolicy parses a RateLimit-Policy field unless it is the same as before.
func (p *Pacer) setPolicy(lines []string) {
	if len(lines) == 0 || slices.Equal(lines, p.policyLines) {
		return
	}
	if policies := ratelimitfield.ParsePolicies(lines); policies != nil {
		p.policyLines, p.policies = slices.Clone(lines), policies
	}
}

// good counts an answer that is no sign of overload. It ends the wait for an
// overloaded server. If there is no such wait, and the request was sent after the
// last wait, it halves the gap. It does not change the wait for a quota.
func (p *Pacer) good(now time.Duration, number uint64) {
	if p.busyUntil > now {
		p.busyUntil = now
	} else if number > p.closed {
		if p.gap /= 2; p.gap < leastGap {
			p.gap = 0
		}
	}
}

// later returns when a wait of d is over, including the random delay.
func (p *Pacer) later(now, d time.Duration, u float64) time.Duration {
	d = min(d, p.MaxHold, MaxWait)
	return now + d + time.Duration(u*float64(min(d/10, maxDelay)))
}

// learn takes in the state of a limit. Of several items of the same name, the most
// restrictive counts.
func (p *Pacer) learn(now time.Duration, a *Answer, l ratelimitfield.ServiceLimit, u float64) {
	number := a.Number
	gap, unit := p.policy(l)
	if unit == ratelimitfield.UnitConcurrent {
		p.forget(l)
		return
	}
	q := p.limit(now, l.Name)
	if q == nil || number < q.heard { // the answer to a later request is known
		return
	}
	was := *q
	*q = quota{name: was.name, partition: l.Partition, heard: number, known: p.sent, remaining: l.Remaining, gap: gap,
		since: now, ends: p.later(now, l.Reset, u), refused: a.Refused, uncounted: unit != ratelimitfield.UnitRequests,
		mixed: was.mixed || was.heard != 0 && was.partition != l.Partition}
	if !q.uncounted {
		q.remaining -= max(int64(p.sent-number), p.recent.open(now))
	}
	// Requests in flight at the same time may overtake each other: the answer to
	// a request sent before the last answer came may be older than that answer.
	together := was.heard != 0 && number <= was.known && now-was.since < time.Second
	if (was.heard == number || together) && was.remaining < q.remaining {
		was.mixed = q.mixed
		*q = was
	}
}

// policy returns the policy of a limit: the mean time until a unit returns, 0 if
// it is not known, and the unit.
func (p *Pacer) policy(l ratelimitfield.ServiceLimit) (gap time.Duration, unit string) {
	for _, r := range p.policies {
		if r.Name != l.Name || l.Quota > 0 && r.Quota != l.Quota {
			continue
		}
		if r.Quota > 0 && r.Unit == ratelimitfield.UnitRequests {
			gap = r.Window / time.Duration(r.Quota)
		}
		return gap, r.Unit
	}
	return 0, ratelimitfield.UnitRequests
}

// limit returns the state of a limit, nil if there are too many. It drops expired
// limits to make room.
func (p *Pacer) limit(now time.Duration, name string) *quota {
	i := slices.IndexFunc(p.limits, func(q quota) bool { return q.name == name })
	if i >= 0 {
		return &p.limits[i]
	}
	if len(p.limits) >= maxLimits {
		p.limits = slices.DeleteFunc(p.limits, func(q quota) bool { return q.ends <= now })
	}
	if len(p.limits) >= maxLimits {
		return nil
	}
	p.limits = append(p.limits, quota{name: name})
	return &p.limits[len(p.limits)-1]
}

// forget drops the state of a limit.
func (p *Pacer) forget(l ratelimitfield.ServiceLimit) {
	p.limits = slices.DeleteFunc(p.limits, func(q quota) bool { return q.name == l.Name })
}

// recent counts the requests of about the last second that have no answer yet. A
// server may not have counted them when it answers another request, even one that
// was sent later: requests can overtake each other. An older request has been
// counted, or is lost.
type recent struct {
	slots [8]struct {
		first uint64        // the number of its first request; 0 if it is empty
		began time.Duration // when that was sent
		open  int64
	}
	head int // the newest slot
}

const slotTime = time.Second / 8

func (r *recent) send(now time.Duration, number uint64) {
	if s := &r.slots[r.head]; s.first == 0 || now-s.began >= slotTime {
		r.head = (r.head + 1) % len(r.slots)
		s = &r.slots[r.head]
		s.first, s.began, s.open = number, now, 0
	}
	r.slots[r.head].open++
}

// done counts that a request is answered, or was not sent.
func (r *recent) done(number uint64) {
	for i := range r.slots {
		s := &r.slots[(r.head+len(r.slots)-i)%len(r.slots)]
		if s.first == 0 {
			return
		}
		if s.first <= number {
			s.open = max(s.open-1, 0)
			return
		}
	}
}

// open returns the number of requests that have no answer.
func (r *recent) open(now time.Duration) (n int64) {
	for i := range r.slots {
		if s := &r.slots[i]; s.first != 0 && now-s.began < time.Second+slotTime {
			n += s.open
		}
	}
	return n
}
