package server

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
)

// A Request asks for tokens of a key.
type Request struct {
	Key string
	// N is the cost in tokens, >= 0. With 0 nothing is taken: the answer is whether
	// one token could be had now.
	N int
	// Limit counts instead of the rules', for this request alone and as far as
	// Config.MaxLimit allows, if it is > 0. A token bucket can only be made smaller
	// by it.
	Limit int
	// Queue counts instead of the rules' for this request alone, as far as
	// Config.MaxQueue allows, if OwnQueue is set.
	Queue    int
	OwnQueue bool
	// Caller, if not nil, is told by Wait that the request stands in line.
	Caller interface{ Waits() }
}

// A Verdict is what became of a Request. It can be used again: then it allocates
// nothing.
type Verdict struct {
	OK bool
	// Reason says why not, if not: OverRate or OverBurst (no wait helps); of those
	// who would wait also QueueFull, Overdue, TooLate and Closed.
	Reason weir.Reason
	// RetryAfter is when it would be allowed, if nobody else comes; 0 if that is not
	// known, weir.Never if it never will.
	RetryAfter time.Duration
	// Answers are those of the rules that count for the key, in order, up to the one
	// that denied. There are none if no rule matches.
	Answers []Answer
	// Waited and Place are of a request that stood in line: how long, and how many
	// stood before it when it came.
	Waited time.Duration
	Place  int
	// Grant is what Server.Settle needs, if tokens were taken.
	Grant Grant

	came uint64 // when a request came into line, before the rules changed: the lower, the earlier; 0 if it has not
}

// An Answer is what one rule said.
type Answer struct {
	weir.Decision
	Rule *Rule

	at time.Duration // when it was given, on the Server's clock
}

// Denied returns the answer of the rule that denied, nil if none did.
func (v *Verdict) Denied() *Answer {
	if n := len(v.Answers); n > 0 && !v.OK && v.Reason != 0 {
		return &v.Answers[n-1]
	}
	return nil
}

func (v *Verdict) reset() {
	*v = Verdict{Answers: v.Answers[:0]}
}

// deny ends the Verdict with the answer of the rule that denied.
func (v *Verdict) deny(why weir.Reason, retryAfter time.Duration) {
	v.OK, v.Reason, v.RetryAfter, v.Grant = false, why, retryAfter, Grant{}
}

// Decide decides at once: all rules that count for the key must allow it, or
// nothing is taken from any. It panics if N < 0.
func (s *Server) Decide(req *Request, v *Verdict) { s.decide(req, v, s.now(), true) }

// decide is Decide at a time that is not long ago. What is allowed is counted if it
// is sure.
func (s *Server) decide(req *Request, v *Verdict, at time.Duration, sure bool) {
	if req.N < 0 {
		panic("server: negative cost")
	}
	v.reset()
	set := s.rules.Load()
	e, rules, print := s.keys.find(req.Key, set)
	if len(rules) == 0 {
		s.unmatched(set, req.N, v, sure)
		return
	}
	asked, when := s.limit(req), s.epoch.Add(at)
	for i, r := range rules {
		if !r.Quoted() {
			continue
		}
		d := r.take(req.Key, e.number(i, r, req.Key), when, req.N, r.own(asked))
		v.Answers = append(v.Answers, Answer{d, r, at})
		if !d.OK && s.refuse(r, e, req, v, d) {
			return
		}
	}
	s.allow(req, v)
	if sure {
		s.count(e, print, req, v)
	}
}

// Batch decides many requests, in order, each into the Verdict of the same place,
// all as of the moment of the call. With all, all are allowed or nothing is taken:
// then those that would have been allowed are not, for no Reason, and not counted.
// It panics if there are fewer verdicts than requests, or if a cost is negative.
func (s *Server) Batch(reqs []Request, all bool, verdicts []Verdict) (ok bool) {
	ok = true
	at := s.now()
	for i := range reqs {
		s.decide(&reqs[i], &verdicts[i], at, !all)
		ok = ok && verdicts[i].OK
	}
	if !all {
		return ok
	}
	set := s.rules.Load()
	for i := range reqs {
		req, v := &reqs[i], &verdicts[i]
		switch {
		case ok:
			e, rules, print := s.keys.find(req.Key, set)
			if len(rules) == 0 {
				s.unmatchedKeys[1].Add(1)
			}
			s.count(e, print, req, v)
		case v.OK:
			s.giveBack(req, v.Answers)
			v.deny(0, 0)
		}
	}
	return ok
}

// limit returns what a request may say for itself.
func (s *Server) limit(req *Request) int {
	if req.Limit <= 0 || s.cfg.MaxLimit == 0 {
		return 0
	}
	return min(req.Limit, s.cfg.MaxLimit)
}

// unmatched decides where no rule matches.
func (s *Server) unmatched(set *ruleset, n int, v *Verdict, sure bool) {
	if set.config.Unmatched == "deny" {
		s.unmatchedKeys[0].Add(1)
		v.deny(weir.OverRate, weir.Never)
		return
	}
	if sure {
		s.unmatchedKeys[1].Add(1)
	}
	v.OK, v.Grant = true, grant(n, nil)
}

// allow ends a Verdict.
func (s *Server) allow(req *Request, v *Verdict) {
	v.OK, v.Grant = true, grant(req.N, v.Answers)
}

// count counts a request that was allowed, unless it was for nothing.
func (s *Server) count(e *known, print uint64, req *Request, v *Verdict) {
	if req.N == 0 {
		return
	}
	fresh := false
	if len(v.Answers) > 0 {
		a := &v.Answers[0]
		fresh = a.Remaining == a.Rule.within(a.Rule.own(s.limit(req)))-req.N
	}
	e.count(true, fresh)
	for i := range v.Answers {
		v.Answers[i].Rule.live.counts.allowed.add(print)
	}
}

// grant is what these rules have given together.
func grant(n int, answers []Answer) Grant {
	if n == 0 {
		return Grant{}
	}
	g := Grant{n: n, slack: GrantLife}
	for i := range answers {
		if a := &answers[i]; a.Rule.gives() {
			g.by += a.Rule.mark()
			g.slack = min(g.slack, a.slack(n))
		}
	}
	return g
}

// slack returns for how long a token bucket would not have been full without the
// n tokens: so long all of them can come back. Windows judge that themselves.
func (a *Answer) slack(n int) time.Duration {
	if !a.Rule.refills || a.ResetAfter == weir.Never {
		return GrantLife
	}
	return max(a.ResetAfter-time.Duration(float64(n)*a.Rule.interval), 0)
}

// refuse ends a Verdict with a denial, unless the rule is on trial, and gives
// back what other rules gave.
func (s *Server) refuse(r *Rule, e *known, req *Request, v *Verdict, d weir.Decision) bool {
	if r.Mode == config.Shadow {
		if req.N > 0 {
			r.live.counts.shadowed.Add(1)
		}
		return false
	}
	why := weir.OverRate
	if d.RetryAfter == weir.Never && req.N > 0 {
		why = weir.OverBurst
	}
	s.end(r, e, req, v, why, d.RetryAfter)
	return true
}

func (s *Server) end(r *Rule, e *known, req *Request, v *Verdict, why weir.Reason, retryAfter time.Duration) {
	if req.N > 0 {
		r.live.counts.denied[why].Add(1)
		e.count(false, false)
	}
	s.giveBack(req, v.Answers[:len(v.Answers)-1])
	v.deny(why, retryAfter)
}

// giveBack undoes what rules have given to a request that another refuses.
func (s *Server) giveBack(req *Request, answers []Answer) {
	if req.N == 0 || len(answers) == 0 {
		return
	}
	now := s.now()
	for i := range answers {
		if a := &answers[i]; a.OK {
			at := a.at
			if a.Rule.Algorithm == config.Fixed && now-at < a.ResetAfter {
				at = now // the same window; at its time, it may not have begun yet
			}
			a.Rule.settle(req.Key, s.epoch.Add(at), now-a.at-a.slack(req.N), req.N, 0)
		}
	}
}

// take takes n tokens of a key, if nobody stands in line for them.
func (r *Rule) take(key string, number uint64, at time.Time, n, limit int) weir.Decision {
	l := r.live
	if l.trial != nil && n > 0 {
		l.try(r.bucket(key), at, n)
	}
	if l.lines.waiting.Load() > 0 {
		if d, ok := l.lines.behind(r, key, at, n, limit); ok {
			return d
		}
	}
	return l.look(r.bucket(key), number, at, n, limit)
}

// look takes n tokens or, if n is zero, says whether there is one.
func (l *live) look(bucket string, number uint64, at time.Time, n, limit int) weir.Decision {
	d := l.buckets.take(bucket, number, at, n, limit)
	if n == 0 {
		if d.OK = d.Remaining > 0; !d.OK {
			d.RetryAfter = l.buckets.ahead(bucket, 1, limit)
		}
	}
	return d
}

// try asks the candidate.
func (l *live) try(bucket string, at time.Time, n int) {
	ok := 0
	if l.trial.take(bucket, l.trial.number(bucket), at, n, 0).OK {
		ok = 1
	}
	l.counts.trial[ok].Add(1)
}

// settle charges n tokens for what was taken at that time, so long after the
// bucket would have been full without them (see owed), and lets those in line have
// what comes back. The candidate is told too, whatever it said then.
func (r *Rule) settle(key string, at time.Time, after time.Duration, was, n int) int {
	l, bucket := r.live, r.bucket(key)
	if n < was {
		n = was - r.owed(was-n, after)
	}
	charged := l.buckets.settle(bucket, at, was, n)
	if l.trial != nil {
		l.trial.settle(bucket, at, was, n)
	}
	if n < was {
		l.lines.serve(bucket)
	}
	return charged
}

// owed returns how many of n tokens can still come back, so long after the bucket
// would have been full without them: what has come in since would have been lost
// to a full bucket. Of one token, nothing is lost until it has come in wholly.
func (r *Rule) owed(n int, after time.Duration) int {
	if after <= 0 || !r.refills {
		return n
	}
	lost := math.Floor(float64(after) / r.interval)
	return n - int(min(lost, float64(n)))
}

// own returns the limit that a request says for itself as far as it makes a
// difference, else 0: a token bucket can only be made smaller.
func (r *Rule) own(limit int) int {
	if limit == r.limit || limit > r.limit && r.refills {
		return 0
	}
	return limit
}

// within returns the most tokens that a request can have at once, which says a
// limit for itself unless that is 0.
func (r *Rule) within(own int) int {
	if own > 0 {
		return own
	}
	return r.limit
}
