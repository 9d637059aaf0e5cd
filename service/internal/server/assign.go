package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/prefetch"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Exchange shares rates out among leaves: see decider.Decider. It takes a lock that no other
// decision takes. The error is ErrLeaves if the leaf is new and there are too many, or nil.
func (s *Server) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	for i := 0; i < len(x.Reports) && !s.owned.ownsAll(); i++ {
		if err := s.Enter(ctx, x.Reports[i].Key); err != nil {
			return err
		}
	}
	rs, now, ttl := s.memory.Current(), s.clock.Now(), s.cfg.AssignmentTTL
	if s.tier != nil {
		ttl = s.tier.passedTTL(ttl)
	}
	*got = decider.LeafAnswer{Answer: leaf.Answer{
		TTLMS: ttl.Milliseconds(), Assignments: got.Assignments[:0], Watch: got.Watch[:0],
	}}
	ls := &s.leaves
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.exchanges++
	ls.reports += uint64(len(x.Reports))
	ls.sweep(now)
	if x.Leave {
		s.leave(rs, now, x, got)
		return nil
	}
	l, err := ls.enter(x.Leaf, x.Tenant)
	if err != nil {
		return err
	}
	if l.session.Share = x.Share; !x.Single {
		ls.renew(l, now+ttl)
	}
	got.Known, got.Resync = l.keys.n, l.rules != rs.ID && l.keys.n > 0
	l.rules = rs.ID
	if !x.Unsure { // else it has had another name
		l.restored = false
		ls.heard(l)
	}
	e := exchange{server: s, rules: rs, now: now, ttl: ttl, leaf: l, keep: x.Keep, single: x.Single, unsure: x.Unsure}
	got.Assignments = slices.Grow(got.Assignments, len(x.Reports))[:len(x.Reports)]
	for i := 0; i < len(x.Reports); i += aheadReports {
		end := min(i+aheadReports, len(x.Reports))
		e.reports(x.Reports[i:end], got.Assignments[i:end])
	}
	got.Known += e.fresh
	got.Watch = l.takeWatch(got.Watch)
	got.NextMS = e.next(len(got.Watch) > 0).Milliseconds()
	got.Leaves = s.sharers(l)
	return nil
}

// sharers returns the number of leaves that may use the keys of a leaf: the leaves that may use all keys, and
// the leaves of its tenant. Of a Tier, it includes the Tier itself and the leaves of its upstream, as if each of
// them had as many as the Tier.
func (s *Server) sharers(l *leafSession) int {
	n := s.leaves.unrestricted
	if l.tenant != nil {
		n += l.tenant.leaves
	}
	if s.tier != nil {
		return (n + 1) * s.tier.memory.Instances()
	}
	return n
}

// leave charges what a leaf has used, and gives all its assignments back.
func (s *Server) leave(rs *memory.Version, now time.Duration, x *decider.LeafExchange, got *decider.LeafAnswer) {
	got.NextMS = longestInterval.Milliseconds()
	l := s.leaves.byName[x.Leaf]
	for i := range x.Reports {
		r, h := &x.Reports[i], (*holding)(nil)
		if l != nil {
			h = l.keys.get(s.keys.Print(r.Key))
		}
		got.Assignments = append(got.Assignments, leaf.Assignment{Key: r.Key})
		s.charge(rs, now, s.keys.Find(r.Key, rs.Set).Match, r, h)
	}
	if l != nil {
		got.Known = l.keys.n
		s.leaves.leave(l, now)
	}
}

// charge charges the tokens that a leaf has used to the rules of a match, beyond what has been
// charged for its assignment, which may be nil.
func (s *Server) charge(rs *memory.Version, now time.Duration, m *rules.Match, r *leaf.Report, h *holding) {
	switch {
	case r.Used < 0:
		panic("server: negative use")
	case r.Used == 0:
		return
	case len(m.List) == 0 && rs.Config.Unmatched == "deny":
		s.DenyUnmatched(uint64(r.Used))
	}
	if s.tier != nil {
		s.tier.spend(m, r)
		return
	}
	for _, of := range m.Rated {
		rule := rs.At(of)
		if rule.Candidate != nil {
			bucket := rule.Bucket(r.Key)
			rule.Candidate.Settle(bucket, now, 0, r.Used)
		}
		if n := h.uncovered(rule.State, now, r.Used); n > 0 {
			rule.Charge(r.Key, now, n)
		}
	}
}

// An exchange is an Exchange that is being answered.
type exchange struct {
	server *Server
	rules  *memory.Version
	now    time.Duration
	ttl    time.Duration
	leaf   *leafSession
	keep   float64
	single bool
	unsure bool

	fresh  int  // keys that the leaf had no assignment of
	shrunk bool // an assignment is smaller than before
	short  bool // an assignment is smaller than the leaf's share
}

// aheadReports is the number of reports for which memory is fetched at once: the processor then
// waits for all of it together.
const aheadReports = 32

// reports takes reports, and sets their assignments.
func (e *exchange) reports(rs []leaf.Report, got []leaf.Assignment) {
	var prints [aheadReports]uint64
	var held [aheadReports]*holding
	keys := &e.leaf.keys
	for i := range rs {
		prints[i] = e.server.keys.Print(rs[i].Key)
		if keys.n > 0 {
			prefetch.Line(&keys.slots[keys.home(prints[i])])
		}
	}
	for i := range rs {
		if held[i] = keys.get(prints[i]); held[i] != nil {
			held[i].prefetch()
		}
	}
	for _, h := range held[:len(rs)] {
		if h != nil {
			h.first.bucket.Prefetch(false)
		}
	}
	for _, h := range held[:len(rs)] {
		if h != nil {
			h.first.bucket.Prefetch(true)
		}
	}
	for i := range rs {
		h := keys.get(prints[i]) // a report may have been about the same key, or have ended it
		e.report(&rs[i], &got[i], h, prints[i])
	}
}

// report takes one report, of a key of which the leaf has an assignment unless h is nil, and
// sets the next assignment.
func (e *exchange) report(r *leaf.Report, got *leaf.Assignment, h *holding, print uint64) {
	s, ls := e.server, &e.server.leaves
	*got = leaf.Assignment{Key: r.Key}
	if h = ls.alive(h, e.now); h == nil {
		e.fresh++
		if e.unsure || r.Has == decider.AsAssigned {
			h = ls.alive(ls.takeOver(e.leaf, print, r.Has, e.now), e.now)
		}
	}
	m := e.match(h, r.Key)
	s.charge(e.rules, e.now, m, r, h)
	switch {
	case r.Done:
		ls.drop(h, e.now)
		return
	case m.Dated(): // the rules say so: it does not count as refused
		got.Error = errDated
		ls.drop(h, e.now)
		return
	case h == nil && e.unsure && !e.blind(r.Key) && ls.mayTakeOver(e.leaf, print):
		got.Learning = true
		return
	case h == nil && ls.fullFor(e.leaf, e.now):
		ls.refuse(e.leaf.tenant != nil)
		got.Error = decider.ErrLeaves.Error()
		return
	case h == nil:
		h = ls.add(e.leaf, strings.Clone(r.Key), print)
	}
	if h.match != m {
		e.follow(h, m)
	}
	h.watched = false
	if !e.continues(h, r, got) {
		e.assign(h, r, got)
	}
	if got.Error != "" {
		ls.refuse(e.leaf.tenant != nil)
		if !h.first.Live() {
			ls.drop(h, e.now)
		}
	}
}

// errDated says why there is no assignment of a key. The leaf asks about each request.
const errDated = "a rule of this key counts in calendar windows, which have no rate to assign"

// match returns the rules that count for a key, of which h may be nil.
func (e *exchange) match(h *holding, key string) *rules.Match {
	if h != nil && h.match.Set == e.rules.Set {
		return h.match
	}
	return e.server.keys.Find(key, e.rules.Set).Match
}

// assign reports to the allocators of a key, and sets the smallest of their assignments.
func (e *exchange) assign(h *holding, r *leaf.Report, got *leaf.Assignment) {
	got.Unlimited = len(h.match.List) > 0 || e.rules.Config.Unmatched != "deny"
	first, contended, empty, tier := true, false, false, e.server.tier
	for p := h.parts; p != nil; p = p.next {
		was, limited := p.Rate(), p.bucket != e.server.leaves.unlimited
		if tier != nil && limited && !tier.limitPassed(e.rules, e.now, h, p.bucket) {
			empty = true
		}
		has := r.Has
		if has == decider.AsAssigned || e.unsure {
			has = p.Held()
		}
		a, err := p.bucket.Report(e.now, &p.Member, allocator.Report{Wants: r.Wants, Has: has, Keep: e.keep, Join: e.single})
		if err != nil {
			*got = leaf.Assignment{Key: r.Key, Error: err.Error()}
			return
		}
		if !limited {
			continue
		}
		if tier != nil {
			tier.pass(e.now, p.bucket)
		} else {
			p.bucket.note(e.now)
		}
		contended = contended || a.Contended
		if a.Short { // as soon as others have given something back, there is more for it
			e.short = true
			watch(&p.Member)
		}
		e.shrunk = e.shrunk || a.Contended && a.Rate < was && a.Rate < has*(1-shrunk)
		if first || a.Rate < got.Rate {
			limit, leaves := p.bucket.told()
			first, got.Rate, got.Burst, got.Unlimited = false, a.Rate, a.Burst, false
			got.LimitRate, got.LimitBurst, got.Leaves = limit.Rate, limit.Burst, leaves
		}
	}
	got.Contended = contended
	got.Learning = empty || !first && !e.single && r.Has == 0 && (e.now < e.server.leaves.cfg.Learn || e.server.owned.isNew(e.now, e.server, r.Key))
	h.setContended(contended)
}

// Bounds of the interval between two exchanges of a leaf.
const (
	leastInterval     = 100 * time.Millisecond // after an assignment that others wait for
	shortInterval     = 250 * time.Millisecond // while the leaf waits for others
	contendedInterval = time.Second
	longestInterval   = 5 * time.Second
)

// shrunk is the part by which an assignment must be smaller for leastInterval.
const shrunk = 0.02

// next returns when the next exchange is due.
func (e *exchange) next(watch bool) time.Duration {
	most := max(e.ttl/6, leastInterval)
	switch {
	case e.shrunk:
		return leastInterval
	case e.short:
		return min(shortInterval, most)
	case watch || e.leaf.contended > 0:
		return min(contendedInterval, most)
	}
	return min(longestInterval, most)
}
