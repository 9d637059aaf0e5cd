package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Decide decides at once: see decider.Decider.
func (s *Server) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if err := s.enterRequest(ctx, req); err != nil {
		return err
	}
	*v = decider.Verdict{At: s.clock.At(req.Now), Answers: v.Answers[:0]}
	rs := s.rules.Load()
	a := ask{Found: s.keys.Find(req.Key, rs.Set), rs: rs, req: req, v: v}
	if len(a.Rated) == 0 || req.Quota != nil || req.N < 0 {
		if settled, err := s.settle(&a, true); settled || err != nil {
			return err
		}
	}
	whole, err := s.counter.take(ctx, a)
	if err != nil {
		return err
	}
	s.conclude(&a, whole, true)
	return nil
}

// settle makes the verdict about a request that no counter need be asked about: one without a
// quota, for a key that no rule matches. It counts one that is allowed only if final is set. The
// error is one of the request.
func (s *Server) settle(a *ask, final bool) (settled bool, err error) {
	switch {
	case a.req.N < 0:
		panic("server: negative cost")
	case a.Unrated(a.req):
		return false, decider.ErrNoRate
	case a.req.Quota != nil:
		if !a.AllowsOwn() {
			err = decider.ErrOwnQuota
		}
		return false, err
	case len(a.List) > 0:
		return false, nil
	}
	s.unmatched(a, final)
	return true, nil
}

// conclude makes the verdict of what a counter has answered, unless that is whole, and counts the
// request; one that is allowed only if final is set.
func (s *Server) conclude(a *ask, whole, final bool) {
	switch v := a.v; {
	case !whole && a.req.Quota != nil:
		s.foldOwn(a, final)
	case !whole:
		s.fold(a, final)
	case v.OK && final:
		s.countWhole(a)
	case !v.OK && v.Reason != 0 && a.req.N > 0:
		s.countWholeDenied(a)
	}
	if s.ladder != nil && (whole || a.v.Step != decider.Exact) {
		s.ladder.note(a.req.Key, a.v)
	}
}

// fold makes a verdict of the answers of rules.
func (s *Server) fold(a *ask, final bool) {
	v, n := a.v, a.req.N
	v.Rule = a.First()
	g, shadows, rated := decider.Grant{N: n, At: v.At}, 0, a.Rated
	for i, j := 0, 0; i < len(v.Answers); i, j = i+1, j+1 {
		answer := &v.Answers[i]
		j = ruleOf(answer, rated, j)
		switch r := a.rs.at(rated[j]); {
		case r.Mode == config.Shadow:
			if !answer.OK && n > 0 {
				r.Tally.Shadowed.Add(1)
			}
			if shadows++; answer.OK && shadows <= maxShadows {
				g.Rules += r.mark()
			}
		case answer.OK:
			r.grant(&g, answer)
		default:
			why := v.Reason
			switch {
			case why != 0:
			case answer.RetryAfter == weir.Never && n > 0:
				why = weir.OverBurst
			default:
				why = weir.OverRate
			}
			if n > 0 {
				r.Tally.Denied[why].Add(1)
				a.Known.Count(false, false)
			}
			v.Deny(why, answer.RetryAfter)
			return
		}
	}
	if v.OK = true; n == 0 {
		v.Grant = decider.Grant{}
		return
	}
	if v.Grant.At != 0 { // by the clock of the counter
		g.At = v.Grant.At
	}
	if v.Grant = g; final {
		s.count(a)
	}
}

// Batch decides many requests: see decider.Decider.
func (s *Server) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	if err := s.enterAll(ctx, reqs); err != nil {
		return false, err
	}
	return s.batch(ctx, s.rules.Load(), reqs, all, verdicts, false)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (s *Server) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	rs := s.rules.Load()
	rs.DropQuotas(reqs)
	if err := s.enterAll(ctx, reqs); err != nil {
		return false, err
	}
	return s.batch(ctx, rs, reqs, all, verdicts, rs.Replaces())
}

// batch is Batch under some rules. With replaces set, requests with a rule that is replaced by the
// rule of another take no tokens.
func (s *Server) batch(ctx context.Context, rs *version, reqs []decider.Request, all bool, verdicts []decider.Verdict, replaces bool) (ok bool, err error) {
	var few [16]rules.Found
	keys, err := s.keys.FindAll(ctx, reqs, rs.Set, few[:0])
	if err != nil && all {
		return false, err
	}
	reqs, ok = reqs[:len(keys)], err == nil
	if err := s.prepareAll(rs, keys, reqs); err != nil {
		return false, err
	}
	var replaced map[string]bool
	if replaces {
		replaced = rules.Replaced(keys, reqs)
	}
	var at time.Duration
	if len(reqs) > 0 {
		at = s.clock.At(reqs[0].Now)
	}
	b := s.batches.get(len(reqs))
	defer s.batches.put(b)
	for i := range reqs {
		a, v := &b.asks[i], &verdicts[i]
		*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
		*a = asked{ask: ask{Found: keys[i], rs: rs, req: &reqs[i], v: v}}
		if a.settled = len(replaced) > 0 && replaced[a.Name(a.req)]; a.settled {
			v.OK = true
		} else {
			a.settled, _ = s.settle(&a.ask, !all) // no error: the requests are checked
		}
	}
	s.counter.takeAll(ctx, b.asks, all)
	for i := range b.asks {
		a := &b.asks[i]
		switch {
		case a.err != nil:
			a.v.Deny(0, 0)
			if err == nil {
				err = a.err
			}
		case !a.settled:
			if s.conclude(&a.ask, a.whole, !all); a.untaken && a.v.OK {
				a.v.Deny(0, 0)
			}
		}
		ok = ok && a.v.OK
	}
	if all {
		s.endAll(b.asks, ok)
	}
	return ok, err
}

// endAll ends a batch that is all or nothing.
func (s *Server) endAll(asks []asked, ok bool) {
	for i := range asks {
		a := &asks[i]
		switch {
		case !ok && a.v.OK:
			a.v.Deny(0, 0)
		case !ok:
		case a.settled && len(a.List) > 0: // replaced
		case a.settled:
			s.unmatchedAllowed.Add(1)
		case a.whole:
			s.countWhole(&a.ask)
		case a.req.Quota != nil:
			s.countOwn(&a.ask)
		default:
			s.count(&a.ask)
		}
	}
}

// batches keep the asks of batches for the next ones.
type batches struct{ pool sync.Pool }

type batch struct{ asks []asked }

// maxKeptAsks bounds the asks of a batch that is kept.
const maxKeptAsks = 1 << 10

func (p *batches) get(n int) *batch {
	b, _ := p.pool.Get().(*batch)
	if b == nil {
		b = new(batch)
	}
	b.asks = slices.Grow(b.asks, n)[:n]
	return b
}

func (p *batches) put(b *batch) {
	clear(b.asks)
	if b.asks = b.asks[:0]; cap(b.asks) <= maxKeptAsks {
		p.pool.Put(b)
	}
}

// Wait waits for missing tokens: see decider.Decider.
func (s *Server) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	*v = decider.Verdict{Answers: v.Answers[:0]}
	if err := s.enterRequest(ctx, req); err != nil {
		return err
	}
	a := s.find(req, v)
	switch {
	case a.settled || a.err != nil:
	case req.Quota != nil || req.N == 0: // it cannot wait
		a.whole, a.err = s.counter.take(ctx, a.ask)
	default:
		a = s.counter.await(ctx, a)
	}
	if !a.settled && a.err == nil {
		s.conclude(&a.ask, a.whole, true)
	}
	return a.err
}

// find returns a request under the rules in force. It keeps how long it has waited.
func (s *Server) find(req *decider.Request, v *decider.Verdict) (a asked) {
	rs := s.rules.Load()
	*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0], Waited: v.Waited, Place: v.Place}
	a.ask = ask{Found: s.keys.Find(req.Key, rs.Set), rs: rs, req: req, v: v}
	a.settled, a.err = s.settle(&a.ask, true)
	return a
}

// ownLimit returns the limit that a request asks for.
func (s *Server) ownLimit(req *decider.Request) int {
	if req.Limit <= 0 || s.cfg.MaxLimit == 0 {
		return 0
	}
	return min(req.Limit, s.cfg.MaxLimit)
}

// unmatched decides about a key that no rule matches.
func (s *Server) unmatched(a *ask, final bool) {
	if a.rs.Config.Unmatched == "deny" {
		s.unmatchedDenied.Add(1)
		a.v.Deny(weir.OverRate, weir.Never)
		return
	}
	if final {
		s.unmatchedAllowed.Add(1)
	}
	if a.v.OK = true; a.req.N > 0 {
		a.v.Grant = decider.Grant{N: a.req.N, At: a.v.At}
	}
}

// count counts a request that was allowed, unless its cost is zero.
func (s *Server) count(a *ask) {
	if a.req.N == 0 {
		return
	}
	fresh, rated := false, a.Rated // fresh: it is the first to use tokens
	for i, j := 0, 0; i < len(a.v.Answers); i, j = i+1, j+1 {
		j = ruleOf(&a.v.Answers[i], rated, j)
		r := rated[j]
		if i == 0 {
			fresh = a.v.Answers[0].Remaining == r.Within(r.OwnLimit(s.ownLimit(a.req)))-a.req.N
		}
		r.Tally.Allowed.Add(a.Print)
	}
	a.Known.Count(true, fresh)
}

// countWhole counts a request that another node has allowed.
func (s *Server) countWhole(a *ask) {
	if a.req.N == 0 {
		return
	}
	if len(a.List) == 0 {
		s.unmatchedAllowed.Add(1)
	}
	for _, r := range a.Rated {
		r.Tally.Allowed.Add(a.Print)
	}
	a.Known.Count(true, false)
}

// countWholeDenied counts a request that another node has denied.
func (s *Server) countWholeDenied(a *ask) {
	if a.req.Quota != nil {
		s.countOwnDenied(a, a.v.Reason)
		return
	}
	a.Known.Count(false, false)
	if r := a.Denying(a.v); r != nil {
		r.Tally.Denied.Add(a.v.Reason)
	}
}
