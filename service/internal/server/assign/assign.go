package assign

import (
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

// Exchange answers the exchange of a leaf. It takes a lock that no other
// decision takes. The error is decider.ErrLeaves if the leaf is new and there are too many, or nil.
func (a *Assigner) Exchange(x *decider.LeafExchange, got *decider.LeafAnswer) error {
	rs, now, ttl := a.cfg.Memory.Current(), a.cfg.Clock.Now(), a.cfg.TTL
	if a.cfg.Source != nil {
		ttl = a.cfg.Source.TTL(ttl)
	}
	*got = decider.LeafAnswer{Answer: leaf.Answer{
		TTLMS: ttl.Milliseconds(), Assignments: got.Assignments[:0], Watch: got.Watch[:0],
	}}
	ls := &a.leaves
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.exchanges++
	ls.reports += uint64(len(x.Reports))
	ls.sweep(now)
	if x.Leave {
		a.leave(rs, now, x, got)
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
	e := exchange{of: a, rules: rs, now: now, ttl: ttl, leaf: l, keep: x.Keep, single: x.Single, unsure: x.Unsure, repeat: x.Repeat}
	got.Assignments = slices.Grow(got.Assignments, len(x.Reports))[:len(x.Reports)]
	for i := 0; i < len(x.Reports); i += aheadReports {
		end := min(i+aheadReports, len(x.Reports))
		e.reports(x.Reports[i:end], got.Assignments[i:end])
	}
	got.Known += e.fresh
	got.Watch = l.takeWatch(got.Watch)
	got.NextMS = e.next(len(got.Watch) > 0).Milliseconds()
	got.Leaves = a.sharers(l)
	return nil
}

// sharers returns the number of leaves that may use the keys of a leaf: the leaves that may use all keys, and
// the leaves of its tenant. Of a Source, it includes the node itself and the leaves of its upstream, as if each of
// them had as many as the node.
func (a *Assigner) sharers(l *leafSession) int {
	n := a.leaves.unrestricted
	if l.tenant != nil {
		n += l.tenant.leaves
	}
	if a.cfg.Source != nil {
		return (n + 1) * a.cfg.Memory.Instances()
	}
	return n
}

// leave charges what a leaf has used, and gives all its assignments back.
func (a *Assigner) leave(rs *memory.Version, now time.Duration, x *decider.LeafExchange, got *decider.LeafAnswer) {
	got.NextMS = LongestInterval.Milliseconds()
	l := a.leaves.byName[x.Leaf]
	for i := range x.Reports {
		r, h := &x.Reports[i], (*holding)(nil)
		if l != nil {
			h = l.keys.get(a.cfg.Keys.Print(r.Key))
		}
		got.Assignments = append(got.Assignments, leaf.Assignment{Key: r.Key})
		a.charge(rs, now, a.cfg.Keys.Find(r.Key, rs.Set).Match, r, h)
	}
	if l != nil {
		got.Known = l.keys.n
		a.leaves.leave(l, now)
	}
}

// charge charges the tokens that a leaf has used to the rules of a match, beyond what has been
// charged for its assignment, which may be nil.
func (a *Assigner) charge(rs *memory.Version, now time.Duration, m *rules.Match, r *leaf.Report, h *holding) {
	switch {
	case r.Used < 0:
		panic("assign: negative use")
	case r.Used == 0:
		return
	case len(m.List) == 0 && rs.Config.Unmatched == "deny":
		a.cfg.Unmatched(uint64(r.Used))
	}
	if a.cfg.Source != nil {
		a.cfg.Source.Spend(m, r)
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
	of     *Assigner
	rules  *memory.Version
	now    time.Duration
	ttl    time.Duration
	leaf   *leafSession
	keep   float64
	single bool
	unsure bool
	repeat bool

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
		prints[i] = e.of.cfg.Keys.Print(rs[i].Key)
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
	a, ls := e.of, &e.of.leaves
	*got = leaf.Assignment{Key: r.Key}
	if h = ls.alive(h, e.now); h == nil {
		e.fresh++
	}
	if e.unsure || r.Has == decider.AsAssigned {
		h = ls.alive(ls.takeOver(e.leaf, h, print, r.Has, e.now), e.now)
	}
	m := e.match(h, r.Key)
	a.charge(e.rules, e.now, m, r, h)
	switch {
	case r.Done:
		ls.drop(h, e.now)
		return
	case m.Dated(): // the rules say so: it does not count as refused
		got.Error = errDated
		ls.drop(h, e.now)
		return
	case h == nil && e.unsure && ls.mayTakeOver(e.leaf, print, e.now, e.blind(r.Key)):
		got.Learning = true
		return
	case h == nil && ls.fullFor(e.leaf, e.now):
		ls.refuse(e.leaf.tenant != nil)
		got.Error = decider.ErrLeaves.Error()
		return
	case h == nil:
		h = ls.add(e.leaf, strings.Clone(r.Key), print)
		h.heard = e.now
	}
	if h.match != m {
		e.follow(h, m)
	}
	if h.watched = false; !e.repeat {
		h.heard = e.now
	}
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
	return e.of.cfg.Keys.Find(key, e.rules.Set).Match
}

// assign reports to the allocators of a key, and sets the smallest of their assignments.
func (e *exchange) assign(h *holding, r *leaf.Report, got *leaf.Assignment) {
	got.Unlimited = len(h.match.List) > 0 || e.rules.Config.Unmatched != "deny"
	first, contended, empty := true, false, false
	for p := h.parts; p != nil; p = p.next {
		was, limited := p.Rate(), p.bucket != e.of.leaves.unlimited
		if limited && !e.give(h, p.bucket) {
			empty = true
		}
		has := r.Has
		if has == decider.AsAssigned || e.unsure {
			has = p.Held()
		}
		next, err := p.bucket.Report(e.now, &p.Member, allocator.Report{Wants: r.Wants, Has: has, Keep: e.keep, Join: e.single})
		if err != nil {
			*got = leaf.Assignment{Key: r.Key, Error: err.Error()}
			return
		}
		if !limited {
			continue
		}
		e.given(p.bucket)
		contended = contended || next.Contended
		if next.Short { // as soon as others have given something back, there is more for it
			e.short = true
			watch(&p.Member)
		}
		e.shrunk = e.shrunk || next.Contended && next.Rate < was && next.Rate < has*(1-shrunk)
		if first || next.Rate < got.Rate {
			limit, leaves := e.of.told(p.bucket)
			first, got.Rate, got.Burst, got.Unlimited = false, next.Rate, next.Burst, false
			got.LimitRate, got.LimitBurst, got.Leaves = limit.Rate, limit.Burst, leaves
		}
	}
	got.Contended = contended
	got.Learning = empty || !first && !e.single && r.Has == 0 && e.now < e.of.sharing(r.Key, e.now).Learn
	h.setContended(contended)
}

// give asks the Source, if there is one, how much of a bucket may be given away. It returns false if nothing may yet.
func (e *exchange) give(h *holding, b *Bucket) bool {
	source := e.of.cfg.Source
	return source == nil || source.Give(e.now, e.rules, h.match, h.key, b)
}

// given notes what leaves have of a bucket now.
func (e *exchange) given(b *Bucket) {
	if source := e.of.cfg.Source; source != nil {
		source.Given(e.now, b)
		return
	}
	b.note(e.now)
}

// Bounds of the interval between two exchanges of a leaf.
const (
	LeastInterval     = 100 * time.Millisecond // after an assignment that others wait for
	shortInterval     = 250 * time.Millisecond // while the leaf waits for others
	ContendedInterval = time.Second
	LongestInterval   = 5 * time.Second
)

// shrunk is the part by which an assignment must be smaller for LeastInterval.
const shrunk = 0.02

// next returns when the next exchange is due.
func (e *exchange) next(watch bool) time.Duration {
	most := max(e.ttl/6, LeastInterval)
	switch {
	case e.shrunk:
		return LeastInterval
	case e.short:
		return min(shortInterval, most)
	case watch || e.leaf.contended > 0:
		return min(ContendedInterval, most)
	}
	return min(LongestInterval, most)
}
