package server

import (
	"context"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// stored counts in the store. While that does not answer, the node is alone.
type stored struct{ *Shared }

func (s stored) take(ctx context.Context, a ask) (whole bool, err error) {
	one := []asked{{ask: a}}
	s.takeAll(ctx, one, false)
	return false, one[0].err
}

// takeAll sends all requests at once, so that they go together in a pipeline. With all set, they
// are one call.
func (s stored) takeAll(ctx context.Context, asks []asked, all bool) {
	ok := true
	var some []*asking
	for i := range asks {
		a := &asks[i]
		if a.settled {
			ok = ok && !a.refused()
			continue
		}
		there, err := s.prepare(a, nil)
		switch {
		case err != nil:
			fail(asks, err)
			return
		case len(there.buckets) > 0:
			some = append(some, there)
		default: // the store need not be asked
			a.err = memory{s.Server}.takeWith(&a.ask, nil)
			ok = ok && !a.refused()
		}
	}
	switch {
	case all && !ok: // the node denies
		for _, a := range some {
			a.settled = true
		}
	case all && len(some) > 0:
		s.takeTogether(ctx, asks, some)
	default:
		s.takeEach(ctx, some)
	}
}

// takeEach asks for each request on its own.
func (s *Shared) takeEach(ctx context.Context, some []*asking) {
	for i, a := range some {
		a.err = s.begin(ctx, some[i:i+1])
	}
	for i, a := range some {
		if a.err == nil {
			a.err = s.finish(ctx, some[i:i+1])
		}
		switch {
		case a.err == nil:
			s.answered(a)
		case ctx.Err() != nil:
			a.err = ctx.Err()
		default:
			s.takeAway(some[i:i+1], false)
		}
	}
}

// takeTogether asks for requests in one call, all or nothing.
func (s *Shared) takeTogether(ctx context.Context, asks []asked, some []*asking) {
	switch err := s.ask(ctx, some...); {
	case err == errSlots:
		fail(asks, err)
	case err != nil && ctx.Err() != nil:
		fail(asks, ctx.Err())
	case err != nil:
		s.takeAway(some, true)
	default:
		s.heedLooks(some)
		for _, a := range some {
			a.untaken = !a.reply.Granted
			s.answered(a)
		}
	}
}

// answered appends the answers of the store's reply.
func (s *Shared) answered(a *asking) {
	s.steps[decider.Exact].Add(1)
	v := a.v
	if v.At = s.clock.Now(); a.req.Quota != nil {
		a.answer(a.decision(0), ownRule)
		return
	}
	v.Grant.At = time.Unix(0, int64(a.reply.Time)).Sub(s.clock.Time(0)) // by the store's clock
	for i, r := range a.rs.list(a.Rated) {
		d := a.decision(i)
		s.learn(r, a.req.Key, v.At, d.Remaining)
		if d.OK && !a.reply.Granted && !a.returned { // as if it had given, as in a Verdict of one node
			d.Remaining = max(d.Remaining-a.req.N, 0)
		}
		if a.answer(d, r.Ref); !d.OK && r.Mode != config.Shadow {
			return
		}
	}
}

// heedLooks takes back what the store has granted if a request without a cost is denied: the
// script does not deny because of those.
func (s *Shared) heedLooks(all []*asking) {
	if !all[0].reply.Granted {
		return
	}
	denied := false
	for _, a := range all {
		for i := range a.buckets {
			denied = denied || a.req.N == 0 && !a.buckets[i].take.Soft && !a.decision(i).OK
		}
	}
	if !denied {
		return
	}
	s.giveBackStored(merge(all), &all[0].reply)
	for _, a := range all {
		a.reply.Granted, a.returned = false, true
	}
}
