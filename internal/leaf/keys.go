package leaf

import (
	"math"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/usage"
)

// Keys are keys of a leaf, with their buckets: all keys or, for an owner with several locks,
// a part of them. Instants are since an epoch of the owner; one that is earlier than the
// instant of an earlier call counts as that. Keys are not safe for concurrent use.
type Keys struct {
	cfg     Config
	now     time.Duration
	entries table
	list    []*entry
	spare   entry // for a key beyond MaxKeys

	lease  Lease
	term   uint32        // of the lease: the number of times it has ended
	termAt time.Duration // when the term began
	held   int           // entries that are assigned in this term
	resync bool          // report every key

	urgent  []*entry // to be reported with the next exchange
	scan    int      // index of the next entry that a full pass looks at
	waiting int
	over    uint64 // decisions about keys beyond MaxKeys
}

// NewKeys returns Keys with room for cfg.MaxKeys.
func NewKeys(cfg Config) *Keys {
	return &Keys{cfg: cfg.WithDefaults(), entries: newTable(), lease: Lease{Away: weir.Never}}
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.list) }

// Over returns the number of decisions about keys for which there was no room.
func (k *Keys) Over() uint64 { return k.over }

// Held returns the number of keys with a live assignment.
func (k *Keys) Held(now time.Duration) int {
	if now >= k.lease.Until {
		return 0
	}
	return k.held
}

// Take decides about n tokens of a key, without a wait. With n = 0 it takes none, and
// reports whether one is available. The Policy must not change while the Keys are used. If
// the step is Ask, nothing is decided or counted as used, and the Decision denies. Take
// panics if n < 0.
func (k *Keys) Take(now time.Duration, key string, n int, p *Policy) (weir.Decision, Step) {
	now = k.clock(now)
	return k.take(now, key, n, p, k.away(now))
}

// TakeAway is Take for a caller that has found the upstream away. The step is not Ask.
func (k *Keys) TakeAway(now time.Duration, key string, n int, p *Policy) (weir.Decision, Step) {
	return k.take(k.clock(now), key, n, p, true)
}

func (k *Keys) take(now time.Duration, key string, n int, p *Policy, away bool) (weir.Decision, Step) {
	if n < 0 {
		panic("leaf: negative cost")
	}
	e := k.entry(now, key, p)
	e.demand.try(float64(n))
	step := k.step(now, e, away)
	switch {
	case step == Ask:
		k.hurry(now, e)
		return weir.Decision{}, Ask
	case step == ByRule:
		return k.byRule(now, e, n, away), ByRule
	case e.unlimited:
		e.used += n
		return weir.Decision{OK: true, Remaining: math.MaxInt}, step
	}
	l := e.refill(now, k)
	ask := max(n, 1)
	if e.queued || !e.take(now, float64(n), l) || n == 0 && e.tokens < 1 {
		if n > 0 {
			k.hurry(now, e)
		}
		return k.denied(e, float64(ask), l), step
	}
	e.used += n
	return weir.Decision{OK: true, Remaining: whole(e.tokens), ResetAfter: duration(l.Burst-e.tokens, l.Rate)}, step
}

func whole(tokens float64) int { return int(min(max(tokens, 0), math.MaxInt32)) }

// retryAfter is the RetryAfter of a denial by a bucket without a rate, and by rule.
const retryAfter = time.Second

// denied returns the Decision that denies n tokens.
func (k *Keys) denied(e *entry, n float64, l Limit) weir.Decision {
	d := weir.Decision{Remaining: whole(e.tokens), ResetAfter: duration(l.Burst-e.tokens, l.Rate)}
	switch {
	case !e.reachable(n, l):
		d.RetryAfter = weir.Never
	case l.Rate == 0:
		d.RetryAfter = retryAfter
	default:
		d.RetryAfter = max(duration(n+e.ahead-e.served-e.tokens, l.Rate), 1)
	}
	return d
}

// byRule decides by the Policy alone.
func (k *Keys) byRule(now time.Duration, e *entry, n int, away bool) weir.Decision {
	if away && e.policy.Away.passes() {
		e.used += n
		return weir.Decision{OK: true, Remaining: math.MaxInt}
	}
	k.hurry(now, e)
	return weir.Decision{RetryAfter: retryAfter}
}

// Settle changes the cost of work to n tokens; was is the number of tokens that Take or Wait took
// for it at the instant at. It returns the cost charged.
//
// If n is less, the bucket is then as if only n tokens had been taken: it misses the refill that a
// fuller bucket would have had no room for. If too little is known of its use since, it gets
// less, and the cost charged is more than n. If n is more, the difference is taken even if there
// are fewer tokens. The debt is bounded by the burst of the limit, and by 10 seconds' tokens. The
// key is in use at that instant.
func (k *Keys) Settle(now time.Duration, key string, at time.Duration, was, n int) (charged int) {
	if n > was {
		k.Charge(now, key, n-was)
		return n
	}
	e := k.entries.find(key)
	switch {
	case e == nil:
		return was
	case e.unlimited:
		k.use(e, n-was)
		return n
	}
	e.last = k.clock(now)
	l := e.refill(e.last, k)
	all, _ := e.shared()
	back, cost := e.log.Settle(e.instant(), usage.Settlement{
		Was: float64(was), N: float64(n), At: at, Missing: e.size - e.tokens, Rate: max(l.Rate, all.Rate) / 1e9,
	})
	e.tokens += back
	charged = int(math.Ceil(cost - rounding))
	k.use(e, charged-was)
	k.wake(e)
	return charged
}

// rounding is the part of a token by which the arithmetic may err.
const rounding = 1e-4

// Charge takes n tokens of a key even if there are fewer, for work that cost more than its
// estimate.
func (k *Keys) Charge(now time.Duration, key string, n int) {
	e := k.entries.find(key)
	if e == nil {
		return
	}
	now = k.clock(now)
	l := e.refill(now, k)
	took := e.tokens - max(e.tokens-float64(n), min(e.tokens, -e.room(l)))
	e.tokens -= took
	e.took(took)
	k.use(e, n)
}

// use adds tokens to the use that is reported.
func (k *Keys) use(e *entry, n int) {
	e.used += n
	e.demand.tried = max(e.demand.tried+float64(n), 0)
}

// clock returns the instant now, which does not go back.
func (k *Keys) clock(now time.Duration) time.Duration {
	k.now = max(k.now, now)
	return k.now
}

func (k *Keys) away(now time.Duration) bool { return now >= k.lease.Away }

// entry returns the entry of a key, a new one if necessary. If there is no room, the entry
// is one that lasts until the next call.
func (k *Keys) entry(now time.Duration, key string, p *Policy) *entry {
	e := k.entries.find(key)
	if e == nil {
		e = k.add(now, key, p)
	}
	if !e.assigned && !e.sharing && p.Away.shares() && k.away(now) && e.share() != (Limit{}) {
		// The bucket has what the share has brought in since the last request.
		e.drop()
		e.sharing, e.at = true, e.last
	}
	e.policy = p
	e.last = now
	return e
}

func (k *Keys) add(now time.Duration, key string, p *Policy) *entry {
	e := &k.spare
	room := len(k.list) < k.cfg.MaxKeys
	if room {
		e = new(entry)
	} else {
		k.over++
	}
	*e = entry{key: key, policy: p, at: now, demand: demand{since: now, at: now, cost: 1}, index: -1, reportedAt: -1}
	e.log.Start(now)
	if !room {
		return e
	}
	if share := e.share(); share != (Limit{}) && (p.First == ShareFirst || p.Away.shares() && k.away(now)) {
		e.sharing, e.tokens = true, share.Burst // a key that is not in use has all its tokens
	}
	e.index, e.spread = len(k.list), uint8(len(k.list)*0x9d)
	e.key = strings.Clone(key) // the caller may use its memory again
	k.entries.add(e)
	k.list = append(k.list, e)
	k.rush(e)
	return e
}

// remove forgets an entry, which has no waiters.
func (k *Keys) remove(e *entry) {
	last := k.list[len(k.list)-1]
	k.list[e.index], last.index = last, e.index
	k.list[len(k.list)-1] = nil
	k.list = k.list[:len(k.list)-1]
	k.entries.remove(e)
	e.index = -1
}

// live reports whether the entry has an assignment that is valid.
func (k *Keys) live(now time.Duration, e *entry) bool {
	return e.assigned && e.term == k.term && now < k.lease.Until
}

// step returns the step of the ladder that decides about a key.
func (k *Keys) step(now time.Duration, e *entry, away bool) Step {
	switch {
	case k.live(now, e) && away:
		return Last
	case k.live(now, e):
		return Assigned
	case away && e.policy.Away.shares() && e.index >= 0 && (e.share() != Limit{} || e.unlimited):
		e.startShare(now)
		return Share
	case away:
		return ByRule
	case e.sharing:
		return Share
	case e.policy.First == DenyFirst:
		return ByRule
	}
	return Ask
}

// startShare has the key decided by its safe share until its next assignment. A bucket that
// has had no assignment starts empty.
func (e *entry) startShare(now time.Duration) {
	if !e.sharing && !e.assigned {
		e.drop()
		e.at = now
	}
	e.sharing = true
}

// hurry has a key reported with an early exchange, if the upstream does not know its demand.
func (k *Keys) hurry(now time.Duration, e *entry) {
	if e.urgent || e.index < 0 || e.ending {
		return
	}
	live := k.live(now, e)
	if live && e.demand.surge(now, e.reported) || !live && now >= e.retryAt && (e.reportedAt < 0 || now >= e.reportedAt+retryAfter) {
		k.rush(e)
	}
}

// rush has a key reported with an early exchange.
func (k *Keys) rush(e *entry) {
	if !e.urgent {
		e.urgent = true
		k.urgent = append(k.urgent, e)
	}
}

// Urgent reports whether a key is to be reported with an early exchange.
func (k *Keys) Urgent() bool { return len(k.urgent) > 0 }
