package server

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Exchange shares rates out among leaves: see decider.Decider. It takes a lock that no other
// decision takes. The error is ErrLeaves if the leaf is new and there are too many, or nil.
func (s *Server) Exchange(_ context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	rs, now := s.rules.Load(), s.clock.Now()
	*got = decider.LeafAnswer{Answer: leaf.Answer{
		TTLMS: s.cfg.AssignmentTTL.Milliseconds(), Assignments: got.Assignments[:0], Watch: got.Watch[:0],
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
	l, err := ls.enter(x.Leaf)
	if err != nil {
		return err
	}
	if !x.Single {
		l.session.Renew(now + s.cfg.AssignmentTTL)
	}
	got.Known, got.Resync = len(l.keys), l.rules != rs.id && len(l.keys) > 0
	l.rules = rs.id
	e := exchange{server: s, rules: rs, now: now, leaf: l, single: x.Single, keep: x.Keep}
	for i := range x.Reports {
		got.Assignments = append(got.Assignments, leaf.Assignment{})
		e.report(&x.Reports[i], &got.Assignments[i])
	}
	got.Known += e.fresh
	got.Watch = l.takeWatch(got.Watch)
	got.NextMS = e.next(len(got.Watch) > 0).Milliseconds()
	return nil
}

// leave charges what a leaf has used, and gives all its assignments back.
func (s *Server) leave(rs *rules, now time.Duration, x *decider.LeafExchange, got *decider.LeafAnswer) {
	for i := range x.Reports {
		r := &x.Reports[i]
		got.Assignments = append(got.Assignments, leaf.Assignment{Key: r.Key})
		s.charge(rs, now, s.keys.find(r.Key, rs).match, r)
	}
	if l := s.leaves.byName[x.Leaf]; l != nil {
		got.Known = len(l.keys)
		s.leaves.leave(l, now)
	}
}

// charge charges the tokens that a leaf has used to the rules of a match.
func (s *Server) charge(rs *rules, now time.Duration, m *match, r *leaf.Report) {
	switch {
	case r.Used < 0:
		panic("server: negative use")
	case r.Used == 0:
		return
	case len(m.list) == 0 && rs.Config.Unmatched == "deny":
		s.unmatchedDenied.Add(uint64(r.Used))
	}
	for _, rule := range m.rated {
		rule.charge(r.Key, now, 0, 0, r.Used)
	}
}

// An exchange is an Exchange that is being answered.
type exchange struct {
	server *Server
	rules  *rules
	now    time.Duration
	leaf   *leafSession
	single bool
	keep   float64

	fresh  int  // keys that the leaf had no assignment of
	shrunk bool // an assignment is smaller than before
	short  bool // an assignment is smaller than the leaf's share
}

// report takes one report, and sets the assignment.
func (e *exchange) report(r *leaf.Report, got *leaf.Assignment) {
	s, ls := e.server, &e.server.leaves
	got.Key = r.Key
	h := ls.find(e.leaf, r.Key, e.now)
	if h == nil {
		e.fresh++
	}
	m := e.match(h, r.Key)
	s.charge(e.rules, e.now, m, r)
	switch {
	case r.Done:
		ls.drop(h, e.now)
		return
	case h == nil && ls.full(e.leaf):
		ls.refused++
		got.Error = decider.ErrLeaves.Error()
		return
	case h == nil:
		h = ls.add(e.leaf, r.Key)
	}
	if h.match != m {
		e.follow(h, m)
	}
	h.watched = false
	e.assign(h, r, got)
	if got.Error != "" {
		ls.refused++
		if !h.first.Live() {
			ls.drop(h, e.now)
		}
	}
}

// match returns the rules that count for a key, of which h may be nil.
func (e *exchange) match(h *holding, key string) *match {
	if h != nil && h.match.rules == e.rules.id {
		return h.match
	}
	return e.server.keys.find(key, e.rules).match
}

// assign reports to the allocators of a key, and sets the smallest of their assignments.
func (e *exchange) assign(h *holding, r *leaf.Report, got *leaf.Assignment) {
	got.Unlimited = len(h.match.list) > 0 || e.rules.Config.Unmatched != "deny"
	first, contended := true, false
	for p := h.parts; p != nil; p = p.next {
		was := p.Rate()
		a, err := p.bucket.allocator.Report(e.now, &p.Member, allocator.Report{Wants: r.Wants, Has: r.Has, Keep: e.keep})
		if err != nil {
			*got = leaf.Assignment{Key: r.Key, Error: err.Error()}
			return
		}
		if p.bucket == e.server.leaves.unlimited {
			continue
		}
		contended = contended || a.Contended
		e.short = e.short || a.Short
		e.shrunk = e.shrunk || a.Rate < was && a.Rate < r.Has
		if first || a.Rate < got.Rate {
			limit := p.bucket.allocator.Limit()
			first, got.Rate, got.Burst, got.Unlimited = false, a.Rate, a.Burst, false
			got.LimitRate, got.LimitBurst, got.Leaves = limit.Rate, limit.Burst, p.bucket.allocator.Members()
		}
	}
	got.Contended = contended
	got.Learning = !first && r.Has == 0 && e.now < e.server.learns
	h.setContended(contended)
}

// Bounds of the interval between two exchanges of a leaf.
const (
	leastInterval     = 100 * time.Millisecond // after an assignment that others wait for
	shortInterval     = 250 * time.Millisecond // while the leaf waits for others
	contendedInterval = time.Second
	longestInterval   = 5 * time.Second
)

// next returns when the next exchange is due.
func (e *exchange) next(watch bool) time.Duration {
	most := max(e.server.cfg.AssignmentTTL/6, leastInterval)
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
