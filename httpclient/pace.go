package httpclient

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir"

	"github.com/weir-go/weir/internal/ratelimitfield"
)

// The return after a wait. Each good answer halves the gap, and below the least
// there is none: ten answers are enough to go on as before.
const (
	firstGap = 100 * time.Millisecond
	leastGap = 200 * time.Microsecond
	maxDelay = time.Second // of the opening, beyond what was asked for
)

// A pacer knows when the next request to a host may go out, from what the host
// has said. It is pure: instants are durations since any fixed epoch, and
// chance is an argument.
//
// It is closed until a Retry-After is over, and while the quota of a service
// limit is used up that has an end. Then it opens, up to a tenth later, by
// chance, because other clients were told the same instant; and lets one go
// after the other, a gap apart. A quota that is known to come back unit by unit
// lets one out for each, and is not waited for to its end.
type pacer struct {
	longest time.Duration // for which a server is believed
	limits  []quota       // at most maxItems

	over  time.Duration                // the end of a Retry-After for this client's requests
	busy  time.Duration                // the end of one for all; a good answer ends it, too
	why   weir.Reason                  // why it is closed, or was at last
	sent  uint64                       // requests let out, which is the number of the last
	gap   time.Duration                // between requests; 0 = none
	last  time.Duration                // when a request was let out
	young recent                       // requests that the host may not have seen yet
	lines []string                     // of the last RateLimit-Policy field
	rules []ratelimitfield.QuotaPolicy // what it says
}

// A quota is what is known of a service limit: that of the answer to the request
// heard, less what was sent since that request.
type quota struct {
	name, partition string
	mixed           bool // its items have named several partitions
	uncounted       bool // its units are not requests
	heard           uint64
	known           uint64 // the last request sent when it was heard
	remaining       int64
	since, ends     time.Duration
	gap             time.Duration // the average time for one unit; 0 if it is not known
	refused         bool          // the answer was a refusal
}

// steadyGap is less than the unit of reset times: that of a quota of which a
// unit comes back sooner says nothing.
const steadyGap = time.Second

// opens returns when q lets the next request out; it may if that is not after
// now. Whose quota is used up if there are several partitions, nobody knows.
//
// When the host said r, it had r units at least, and since has got back one each
// gap; all that was sent since then will use one. So what is let out at that
// instant is not too much, however long it takes.
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

// An opening is when requests may go out again, as far as the server has said;
// an instant that is not after now means that they may.
type opening struct {
	at  time.Duration
	why weir.Reason   // not before
	gap time.Duration // afterwards, if it is known
}

func (p *pacer) opens(now time.Duration) opening {
	o := opening{at: p.over, why: weir.OverRate}
	if p.busy > o.at {
		o = opening{at: p.busy, why: weir.Throttled}
	}
	for i := range p.limits {
		if at := p.limits[i].opens(now); at > now && at > o.at {
			o = opening{at, weir.OverRate, p.limits[i].gap}
		}
	}
	return o
}

// turn returns when the next request may go out, if all stays as it is.
func (p *pacer) turn(now time.Duration) time.Duration {
	at := p.opens(now).at
	if p.gap > 0 {
		at = max(at, p.last+p.gap)
	}
	return at
}

// send lets a request out, and returns its number.
func (p *pacer) send(now time.Duration) uint64 {
	p.sent++
	p.last = now
	p.young.send(now, p.sent)
	for i := range p.limits {
		if q := &p.limits[i]; !q.uncounted {
			q.remaining--
		}
	}
	p.settle(now, now)
	return p.sent
}

// unsend takes back a request that did not go out after all.
func (p *pacer) unsend(now time.Duration, number uint64) {
	was := p.opens(now).at
	p.young.done(number)
	for i := range p.limits {
		if q := &p.limits[i]; !q.uncounted && q.heard < number {
			q.remaining++
		}
	}
	p.settle(now, was)
}

// settle draws the consequences of what has changed: before, the opening was at
// the instant was. If it is closed, there will be a gap; not if it is open
// again because of what was learnt, and not of time.
func (p *pacer) settle(now, was time.Duration) {
	switch o := p.opens(now); {
	case o.at > now:
		p.why = o.why
		p.gap = min(cmp.Or(o.gap, firstGap), firstGap)
	case was > now:
		p.gap = 0
	}
}

// An answer is what a pacer hears of a response.
type answer struct {
	number   uint64 // of the request
	overload bool   // its status says so
	busy     bool   // it is a 503
	refused  bool   // it is a 429
	after    time.Duration
	waits    bool // it says after
	limits   []ratelimitfield.ServiceLimit
	policy   []string // the lines of RateLimit-Policy
}

// hear takes an answer in; chance is evenly distributed in [0, 1).
func (p *pacer) hear(now time.Duration, a *answer, chance float64) {
	was := p.opens(now).at
	p.young.done(a.number)
	p.heed(a.policy)
	if !a.overload {
		p.good(now)
	}
	for _, l := range a.limits {
		if a.waits { // it wins over what the same answer says of limits
			p.forget(l)
		} else {
			p.learn(now, a, l, chance)
		}
	}
	if end := p.later(now, a.after, chance); a.busy {
		p.busy = max(p.busy, end)
	} else {
		p.over = max(p.over, end)
	}
	p.settle(now, was)
}

// heed takes in the lines of a RateLimit-Policy. They are mostly the same.
func (p *pacer) heed(lines []string) {
	if len(lines) == 0 || slices.Equal(lines, p.lines) {
		return
	}
	if rules := ratelimitfield.ParsePolicies(lines); rules != nil {
		p.lines, p.rules = slices.Clone(lines), rules
	}
}

// good is an answer that is no sign of overload. It contradicts a host that has
// said of itself that it is not available, or else quickens the return. Of a
// quota it says nothing.
func (p *pacer) good(now time.Duration) {
	if p.busy > now {
		p.busy = now
	} else if p.gap /= 2; p.gap < leastGap {
		p.gap = 0
	}
}

// later returns the instant at which a wait of d is over, and the herd has
// spread.
func (p *pacer) later(now, d time.Duration, chance float64) time.Duration {
	d = min(d, p.longest)
	return now + d + time.Duration(chance*float64(min(d/10, maxDelay)))
}

// learn takes in what the answer to a request says of a limit. Of several items
// of the same name the most restrictive binds.
func (p *pacer) learn(now time.Duration, a *answer, l ratelimitfield.ServiceLimit, chance float64) {
	number := a.number
	gap, unit := p.rule(l)
	if unit == ratelimitfield.UnitConcurrent {
		p.forget(l)
		return
	}
	q := p.limit(now, l.Name)
	if q == nil || number < q.heard { // what was sent later is known of
		return
	}
	was := *q
	*q = quota{name: was.name, partition: l.Partition, heard: number, known: p.sent, remaining: l.Remaining, gap: gap,
		since: now, ends: p.later(now, l.Reset, chance), refused: a.refused, uncounted: unit != ratelimitfield.UnitRequests,
		mixed: was.mixed || was.heard != 0 && was.partition != l.Partition}
	if !q.uncounted {
		q.remaining -= max(int64(p.sent-number), p.young.open(now))
	}
	// Requests that are under way together may overtake each other: an answer to
	// one that was sent before the last answer came may be older than that.
	together := was.heard != 0 && number <= was.known && now-was.since < time.Second
	if (was.heard == number || together) && was.remaining < q.remaining {
		was.mixed = q.mixed
		*q = was
	}
}

// rule returns what is known of a limit's policy: the average time for one unit,
// 0 if that is not known, and the unit.
func (p *pacer) rule(l ratelimitfield.ServiceLimit) (gap time.Duration, unit string) {
	for _, r := range p.rules {
		if r.Name != l.Name {
			continue
		}
		if r.Quota > 0 && r.Unit == ratelimitfield.UnitRequests {
			gap = r.Window / time.Duration(r.Quota)
		}
		return gap, r.Unit
	}
	return 0, ratelimitfield.UnitRequests
}

// limit returns what is known of the limit of a name; nil if there are too many.
// One whose time is over makes place for another.
func (p *pacer) limit(now time.Duration, name string) *quota {
	i := slices.IndexFunc(p.limits, func(q quota) bool { return q.name == name })
	if i >= 0 {
		return &p.limits[i]
	}
	if len(p.limits) >= maxItems {
		p.limits = slices.DeleteFunc(p.limits, func(q quota) bool { return q.ends <= now })
	}
	if len(p.limits) >= maxItems {
		return nil
	}
	p.limits = append(p.limits, quota{name: name})
	return &p.limits[len(p.limits)-1]
}

// forget drops what is known of a limit.
func (p *pacer) forget(l ratelimitfield.ServiceLimit) {
	p.limits = slices.DeleteFunc(p.limits, func(q quota) bool { return q.name == l.Name })
}

// A recent counts the requests of the last second, more or less, that have no
// answer. Of those let out before the one that is answered, too, nobody knows
// whether the host has seen them: they may overtake each other. One that takes
// longer has been seen, or is lost.
type recent struct {
	slots [8]struct {
		first uint64        // the number of its first request; 0 = none
		began time.Duration // when that was sent
		open  int64
	}
	head int // the last
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

// done takes in that a request is answered, or was not sent.
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

// open returns how many have no answer.
func (r *recent) open(now time.Duration) (n int64) {
	for i := range r.slots {
		if s := &r.slots[i]; s.first != 0 && now-s.began < time.Second+slotTime {
			n += s.open
		}
	}
	return n
}
