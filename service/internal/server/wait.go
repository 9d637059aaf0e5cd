package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
)

// Wait decides as Decide does, but stands in line where tokens are lacking: rule
// after rule, in order, behind those who came before it. It is refused at once if
// its turn cannot come before the deadline of ctx, or within the rule's MaxWait,
// or if as many wait as may. If ctx ends meanwhile, it leaves the line, nothing
// is taken, and the error is the context's own. It panics if N < 0.
func (s *Server) Wait(ctx context.Context, req *Request, v *Verdict) error {
	for v.came = 0; ; {
		err := s.wait(ctx, req, v)
		if err != errMoved {
			return err
		}
	}
}

func (s *Server) wait(ctx context.Context, req *Request, v *Verdict) error {
	if req.N < 0 {
		panic("server: negative cost")
	}
	again := *v
	if v.reset(); again.came > 0 {
		v.came, v.Waited, v.Place = again.came, again.Waited, again.Place
	}
	set := s.rules.Load()
	e, rules, print := s.keys.find(req.Key, set)
	if len(rules) == 0 {
		s.unmatched(set, req.N, v, true)
		return nil
	}
	asked := s.limit(req)
	for i, r := range rules {
		if !r.Quoted() {
			continue
		}
		at, limit := s.now(), r.own(asked)
		d := r.take(req.Key, e.number(i, r, req.Key), s.epoch.Add(at), req.N, limit)
		v.Answers = append(v.Answers, Answer{d, r, at})
		if !d.OK && r.Mode != config.Shadow && d.RetryAfter != weir.Never && req.N > 0 {
			answer := &v.Answers[len(v.Answers)-1]
			why, err := r.live.lines.wait(ctx, r, req, limit, answer, v)
			if err != nil {
				s.giveBack(req, v.Answers[:len(v.Answers)-1])
				return err
			}
			if why != 0 {
				s.end(r, e, req, v, why, answer.RetryAfter)
				return nil
			}
			d, answer.at, v.came = answer.Decision, s.now(), 0
		}
		if !d.OK && s.refuse(r, e, req, v, d) {
			return nil
		}
	}
	s.allow(req, v)
	s.count(e, print, req, v)
	return nil
}

// waitFor returns how long somebody who comes now may wait under a rule, and why
// no longer.
func waitFor(ctx context.Context, r *Rule) (time.Duration, weir.Reason) {
	longest, why := weir.Never, weir.TooLate
	if deadline, ok := ctx.Deadline(); ok {
		longest = time.Until(deadline)
	}
	if r.MaxWait > 0 && r.MaxWait < longest {
		longest, why = r.MaxWait, weir.OverRate
	}
	return longest, why
}
