package server

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/rules"
)

var leavesScript = redislink.NewScript(redisscript.Leaves)

// A StoreAssigner is the upstream of a leaf that has no other upstream than a store: it shares the
// limits of rules out among the leaves of the store (redisscript.Leaves). The cost of all leaves
// is charged in the store's buckets too, so that nodes that ask the store for each decision can
// share the same limits.
//
// The store tells a leaf nothing that it does not ask for. So an exchange asks for a key again
// although the leaf has not reported it: after a second if the key is contended, has 100 requests
// a second or more, or is new to the leaf; else after 100 requests, or 5 seconds.
//
// It serves one leaf. It is not safe for concurrent use.
type StoreAssigner struct {
	shared *Shared
	ttl    time.Duration
	keys   map[string]*storeShare
}

// A storeShare is a key with a share of its limits.
type storeShare struct {
	report    leaf.Report // the last one; Has is the rate that the leaf may use
	since     time.Duration
	reported  time.Duration
	asked     time.Duration
	contended bool
}

// NewAssigner returns the StoreAssigner of one leaf. Assignments are valid for ttl.
func (s *Shared) NewAssigner(ttl time.Duration) *StoreAssigner {
	return &StoreAssigner{shared: s, ttl: ttl, keys: map[string]*storeShare{}}
}

// hotAsks is the number of requests for a key after which the store is asked about its share.
const hotAsks = 100

// newFor is how long a key is new: its demand is not known well yet.
const newFor = 10 * time.Second

// due returns when the store is to be asked again.
func (k *storeShare) due(ttl time.Duration) time.Duration {
	interval := contendedInterval
	if seconds := hotAsks / k.report.Wants; !k.contended && seconds > 1 && k.asked-k.since > newFor { // +Inf without requests
		interval = time.Duration(min(seconds, longestInterval.Seconds()) * float64(time.Second))
	}
	return k.asked + min(interval, ttl/2)
}

// Exchange answers the exchange of the leaf. If the store does not answer, the error says why, and
// the leaf keeps its assignments.
func (a *StoreAssigner) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	s, now := a.shared, a.shared.clock.Now()
	rs := s.Set()
	asks := make([]*shareAsk, 0, len(x.Reports))
	for i := range x.Reports {
		r := &x.Reports[i]
		if r.Done {
			asks = append(asks, a.ask(rs, x.Leaf, r, true))
			delete(a.keys, r.Key)
			continue
		}
		k := a.keys[r.Key]
		if k == nil {
			k = &storeShare{since: now}
			a.keys[r.Key] = k
		}
		k.report, k.reported, k.asked = *r, now, now
		asks = append(asks, a.ask(rs, x.Leaf, r, false))
	}
	for key, k := range a.keys {
		switch {
		case x.Leave || now-k.reported > 2*a.ttl: // the leaf has forgotten it
			asks = append(asks, a.ask(rs, x.Leaf, &k.report, true))
			delete(a.keys, key)
		case now >= k.due(a.ttl):
			k.asked = now
			asks = append(asks, a.ask(rs, x.Leaf, &k.report, false))
		}
	}
	if err := s.askShares(ctx, asks); err != nil {
		return leaf.Answer{}, err
	}
	for i := range x.Reports {
		if r := &x.Reports[i]; r.Used > 0 {
			s.tellUsed(rs, r)
		}
	}
	return a.answer(rs, now, asks), nil
}

// answer returns the assignments of the store's replies.
func (a *StoreAssigner) answer(rs *rules.Set, now time.Duration, asks []*shareAsk) leaf.Answer {
	got := leaf.Answer{TTLMS: a.ttl.Milliseconds(), Assignments: make([]leaf.Assignment, len(asks))}
	for i, ask := range asks {
		got.Assignments[i] = leaf.Assignment{Key: ask.key}
		if k := a.keys[ask.key]; k != nil && !ask.leaves {
			got.Assignments[i] = ask.assignment(rs.Config.Unmatched == "deny")
			k.report.Has, k.contended = got.Assignments[i].Rate, got.Assignments[i].Contended
		}
	}
	next := min(longestInterval, a.ttl/6)
	for _, k := range a.keys {
		next = min(next, max(k.due(a.ttl)-now, leastInterval))
	}
	got.NextMS = next.Milliseconds()
	return got
}

// A shareAsk asks the store for the shares of a key under all rules that can deny it.
type shareAsk struct {
	key    string
	leaves bool // the leaf gives its shares back
	parts  []sharePart
	known  bool // a rule matches the key
}

type sharePart struct {
	limit  leaf.Limit
	lane   *redislink.Lane
	call   *redislink.Call
	answer redisscript.LeafReply
}

// ask returns what a report asks the store for.
func (a *StoreAssigner) ask(rs *rules.Set, name string, r *leaf.Report, leaves bool) *shareAsk {
	s := a.shared
	m := s.keys.Find(r.Key, rs).Match
	ask := &shareAsk{key: r.Key, leaves: leaves, known: len(m.List) > 0}
	for _, rule := range m.Rated {
		limit := limitOf(rule.Quota)
		if rule.Mode == config.Shadow || limit.Rate == 0 {
			ask.parts = appendFixed(ask.parts, rule)
			continue
		}
		report := redisscript.LeafReport{Leaf: name, TTL: 2 * a.ttl, Leave: leaves, Wants: r.Wants / limit.Rate, Has: r.Has / limit.Rate}
		if rule.Per == config.PerRule { // several keys of the leaf share the limit
			report.Leaf += "." + strconv.FormatUint(siphash.Key{}.String(r.Key), 36)
		}
		key := s.storedKey(rule.Bucket(r.Key), s.storedRule(rs, rule).name+":leaves")
		ask.parts = append(ask.parts, sharePart{limit: leaf.Limit(limit), lane: s.link.Lane(key), call: &redislink.Call{
			Script: leavesScript, Keys: []string{key}, Args: report.Args(),
			Look: (&redisscript.LeafReport{Leave: true}).Args,
		}})
	}
	return ask
}

// appendFixed appends a part that the store need not be asked about: nothing passes. A rule in
// shadow mode has none.
func appendFixed(parts []sharePart, r *rules.Rule) []sharePart {
	if r.Mode == config.Shadow {
		return parts
	}
	return append(parts, sharePart{answer: redisscript.LeafReply{Leaves: 1}})
}

// askShares sends all asks, so that they go together in pipelines, and waits for their replies.
func (s *Shared) askShares(ctx context.Context, asks []*shareAsk) error {
	var parts []*sharePart
	for _, ask := range asks {
		for i := range ask.parts {
			if p := &ask.parts[i]; p.call != nil {
				parts = append(parts, p)
			}
		}
	}
	var failed error
	begun := 0
	for ; begun < len(parts) && failed == nil; begun++ {
		failed = parts[begun].lane.Begin(ctx, parts[begun].call)
	}
	if failed != nil {
		begun--
	}
	for _, p := range parts[:begun] {
		numbers, err := p.lane.Await(ctx, p.call)
		if err == nil {
			p.answer, err = redisscript.ReadLeafReply(numbers)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// assignment returns the smallest of the shares.
func (a *shareAsk) assignment(denied bool) leaf.Assignment {
	got := leaf.Assignment{Key: a.key, Rate: math.Inf(1), Unlimited: len(a.parts) == 0 && (a.known || !denied)}
	for _, p := range a.parts {
		got.Contended = got.Contended || p.answer.Contended
		if rate := p.answer.Share * p.limit.Rate; rate < got.Rate {
			got.Rate, got.Burst = rate, p.answer.Share*p.limit.Burst
			got.LimitRate, got.LimitBurst, got.Leaves = p.limit.Rate, p.limit.Burst, p.answer.Leaves
		}
	}
	if len(a.parts) == 0 {
		got.Rate = 0
	}
	return got
}
