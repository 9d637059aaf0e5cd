package store

import (
	"context"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Take takes at once: see counts.Counts.
func (s *Counts) Take(ctx context.Context, a counts.Ask) (whole bool, err error) {
	one := []counts.Asked{{Ask: a}}
	s.TakeAll(ctx, one, false)
	return false, one[0].Err
}

// TakeAll sends all requests at once, so that they go together in a pipeline. With all set, they
// are one call.
func (s *Counts) TakeAll(ctx context.Context, asks []counts.Asked, all bool) {
	ok := true
	var some []*asking
	for i := range asks {
		a := &asks[i]
		if a.Decided {
			ok = ok && !a.Refused()
			continue
		}
		there, err := s.prepare(a, nil)
		switch {
		case err != nil:
			counts.Fail(asks, err)
			return
		case len(there.buckets) > 0:
			some = append(some, there)
		default: // the store need not be asked
			a.Whole, a.Err = s.Counts.Take(ctx, a.Ask)
			ok = ok && !a.Refused()
		}
	}
	switch {
	case all && !ok: // the node denies
		for _, a := range some {
			a.Decided = true
		}
	case all && len(some) > 0:
		s.takeTogether(ctx, asks, some)
	default:
		s.takeEach(ctx, some)
	}
}

// takeEach asks for each request on its own.
func (s *Counts) takeEach(ctx context.Context, some []*asking) {
	for i, a := range some {
		a.Err = s.begin(ctx, some[i:i+1])
	}
	for i, a := range some {
		if a.Err == nil {
			a.Err = s.finish(ctx, some[i:i+1])
		}
		switch {
		case a.Err == nil:
			s.answered(a)
		case ctx.Err() != nil:
			a.Err = ctx.Err()
		default:
			s.takeAway(some[i:i+1], false)
		}
	}
}

// takeTogether asks for requests in one call, all or nothing.
func (s *Counts) takeTogether(ctx context.Context, asks []counts.Asked, some []*asking) {
	switch err := s.ask(ctx, some...); {
	case err == errSlots:
		counts.Fail(asks, err)
	case err != nil && ctx.Err() != nil:
		counts.Fail(asks, ctx.Err())
	case err != nil:
		s.takeAway(some, true)
	default:
		for _, a := range some {
			a.Untaken = !a.reply.Granted
			s.answered(a)
		}
	}
}

// answered appends the answers of the store's reply.
func (s *Counts) answered(a *asking) {
	s.ladder.Count(decider.Exact)
	v := a.V
	if v.At = s.of.Clock.Now(); a.Req.Quota != nil {
		a.Answer(a.decision(0), counts.OwnRule)
		return
	}
	v.Grant.At = time.Unix(0, int64(a.reply.Time)).Sub(s.of.Clock.Time(0)) // by the store's clock
	shadows := 0
	for i, r := range a.Rated {
		d := a.decision(i)
		s.Counts.Learn(a.Set, r, a.Req.Key, v.At, d.Remaining)
		if d.OK && !a.reply.Granted { // as if it had given, as in a Verdict of one node
			d.Remaining = max(d.Remaining-a.Req.N, 0)
		}
		a.Answer(d, r.Ref)
		if a.Give(r, 0, &shadows); !d.OK && r.Mode != config.Shadow {
			return
		}
	}
}

// choose chooses how an asking is decided while the store does not answer.
func (s *Counts) choose(a *asking) away.Choice {
	if a.lane.Known(s.cfg.Known) {
		return away.Known(a.Found)
	}
	return s.share.Choose(a.Found, a.lane.RetryAfter())
}

// takeAway takes by this node alone, and notes what it owes to the store. With all set, it takes for
// all requests or for none.
func (s *Counts) takeAway(some []*asking, all bool) {
	asks := make([]*counts.Asked, len(some))
	for i, a := range some {
		asks[i] = a.Asked
		a.V.At = s.of.Clock.Now()
	}
	for i, kept := range s.share.TakeSome(asks, all, false, func(i int) away.Choice { return s.choose(some[i]) }) {
		if kept {
			s.owe(some[i])
		}
	}
}
