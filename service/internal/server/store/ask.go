package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

var bucketScript = redislink.NewScript(redisscript.Buckets)

// A bucketAsk asks the store for tokens of one bucket.
type bucketAsk struct {
	key   string // in the store
	quota redisscript.Quota
	take  redisscript.Take
	clock bool       // windows of the clock, which decide about requests without a cost themselves
	debt  *debtTerms // how to charge what is allowed while the store is away; nil in shadow mode
}

// An asking is a request at the store. It has a bucket for each of the match's rules with a rate,
// in order, or one for the quota that the request brings.
type asking struct {
	*counts.Asked
	buckets []bucketAsk
	lane    *redislink.Lane
	call    *redislink.Call
	reply   redisscript.Reply
	sent    []bucketAsk // by the call, which may be for other askings, too
	places  []int       // of the buckets in sent; nil if they are the same
}

// prepare returns the asking of a request. It has no buckets if the store need not be asked.
// Of each bucket, ahead returns for how long before they are refilled tokens may be taken; nil
// for not at all.
func (s *Counts) prepare(of *counts.Asked, ahead func(*rules.Rule) time.Duration) (*asking, error) {
	a, req := &asking{Asked: of}, of.Req
	if req.Quota != nil {
		err := s.prepareOwnAsk(a)
		if len(a.buckets) > 0 {
			a.lane = s.link.Lane(a.buckets[0].key)
		}
		return a, err
	}
	asked := s.of.Limit(req)
	for _, r := range a.Rated {
		st, shadow := s.storedRule(a.Set, r), r.Mode == config.Shadow
		b := bucketAsk{
			key: s.storedKey(r.Bucket(req.Key), st.name), quota: st.quota,
			take:  redisscript.Take{N: req.N, Least: req.N, Most: st.most, Soft: shadow, Settled: req.WantID},
			clock: r.Algorithm == config.FixedWindow,
		}
		if own := r.OwnLimit(asked); own > 0 && (r.Interval > 0 || r.Algorithm.Windows()) {
			b.quota = b.quota.Within(own)
		}
		if ahead != nil && !shadow && r.Interval > 0 {
			b.take.Ahead = ahead(r)
		}
		if !shadow {
			b.debt = &debtTerms{rule: r.Quota, most: st.most, instances: s.Counts.Instances()}
		}
		a.buckets = append(a.buckets, b)
		s.Counts.Try(a.Set, r, req)
	}
	if len(a.buckets) > 0 {
		a.lane = s.link.Lane(a.buckets[0].key)
	}
	return a, nil
}

// prepareOwnAsk prepares the bucket of the quota that a request brings.
func (s *Counts) prepareOwnAsk(a *asking) error {
	req, windows := a.Req, a.Set.InWindow(a.Req.Quota)
	if !windows && req.Quota.Empty() {
		return nil
	}
	shared, own, err := a.OwnBucket()
	if err != nil {
		return err
	}
	b := bucketAsk{take: redisscript.Take{N: req.N, Least: req.N}, clock: windows, debt: &debtTerms{rule: own, instances: s.Counts.Instances()}}
	if b.quota, err = storedQuota(own); err != nil {
		return decider.ErrQuota
	}
	switch {
	case shared != nil:
		b.key = s.storedKey(shared.Bucket(req.Key), s.storedRule(a.Set, shared).name)
	case windows:
		b.key = s.storedKey(req.Key, `\unit:`+req.Quota.Unit.String())
	default:
		b.key = s.storedKey(req.Key, `\own:`+strconv.FormatInt(int64(own.Rate.Period), 36)+":"+strconv.Itoa(own.Burst))
		b.take.Most, b.debt.most = clockGrain, clockGrain
	}
	a.buckets = []bucketAsk{b}
	return nil
}

// errSlots is the error of requests that a Cluster cannot decide together.
var errSlots = errors.New("the keys are in different slots of the Redis Cluster, which cannot decide about them all or nothing: ask for each on its own")

// begin sends askings in one call, all or nothing: they are for keys of one slot.
func (s *Counts) begin(ctx context.Context, all []*asking) error {
	first := all[0]
	var merged []bucketAsk
	if len(all) == 1 {
		merged = first.buckets
	} else {
		merged = merge(all)
	}
	if s.link.Lanes() > 1 && !oneSlot(merged) {
		return errSlots
	}
	for _, a := range all {
		a.sent = merged
	}
	c := s.callFor(merged)
	first.call = c
	c.Undo = func(numbers []int64) {
		if reply, err := redisscript.ReadReply(numbers, quotas(merged)...); err == nil && reply.Granted {
			s.giveBackStored(merged, &reply)
		}
	}
	return first.lane.Begin(ctx, c)
}

// finish waits for the reply of askings that have begun.
func (s *Counts) finish(ctx context.Context, all []*asking) error {
	first := all[0]
	numbers, err := first.lane.Await(ctx, first.call)
	if err != nil {
		return err
	}
	reply, err := redisscript.ReadReply(numbers, quotas(first.sent)...)
	for _, a := range all {
		a.reply = reply
	}
	return err
}

// ask asks for askings in one call: see begin.
func (s *Counts) ask(ctx context.Context, all ...*asking) error {
	err := s.begin(ctx, all)
	if err == nil {
		err = s.finish(ctx, all)
	}
	return err
}

// merge returns the buckets of askings together, each once: of a bucket that comes again, more
// is taken. Where a request without a cost would be denied, the others take nothing either. It sets their places.
func merge(all []*asking) (merged []bucketAsk) {
	at := map[string]int{}
	for _, a := range all {
		a.places = a.places[:0]
		for _, b := range a.buckets {
			if b.take.N == 0 && !b.clock {
				b.take.Spare = 1
			}
			i, again := at[b.key]
			if again {
				t := &merged[i].take
				t.N += b.take.N
				t.Least += b.take.Least
				t.Spare = max(t.Spare, b.take.Spare)
				t.Settled = t.Settled || b.take.Settled
			} else {
				i = len(merged)
				at[b.key], merged = i, append(merged, b)
			}
			a.places = append(a.places, i)
		}
	}
	return merged
}

func oneSlot(all []bucketAsk) bool {
	for i := range all {
		if redisscript.Slot(all[i].key) != redisscript.Slot(all[0].key) {
			return false
		}
	}
	return true
}

func quotas(all []bucketAsk) []*redisscript.Quota {
	list := make([]*redisscript.Quota, len(all))
	for i := range all {
		list[i] = &all[i].quota
	}
	return list
}

// callFor returns the call of the script for buckets.
func (s *Counts) callFor(all []bucketAsk) *redislink.Call {
	c := &redislink.Call{Script: bucketScript, Keys: make([]string, len(all)), Args: make([]any, 0, 6*len(all))}
	for i := range all {
		b := &all[i]
		c.Keys[i], c.Args = b.key, b.quota.Args(c.Args, &b.take)
	}
	c.Look = func() (args []any) {
		for i := range all {
			args = all[i].quota.Args(args, &redisscript.Take{Most: all[i].take.Most})
		}
		return args
	}
	return c
}

// giveBackStored gives back what buckets have given.
func (s *Counts) giveBackStored(all []bucketAsk, reply *redisscript.Reply) {
	for i := range all {
		if n := reply.Taken(i); n > 0 {
			s.tell(&all[i], redisscript.Take{N: -n, Taken: reply.Time, Most: all[i].take.Most})
		}
	}
}

// tell runs the script for a bucket, without a caller.
func (s *Counts) tell(b *bucketAsk, take redisscript.Take) {
	one := *b
	one.take = take
	c := s.callFor([]bucketAsk{one})
	c.Then = func(a redislink.Answer) {
		if a.Err != nil {
			s.dropped.Add(1)
		}
	}
	s.link.Lane(b.key).Send(c)
}

// bucket returns the place in the reply of the bucket with index i, and what was asked of it.
func (a *asking) bucket(i int) (int, *bucketAsk) {
	b := &a.buckets[i]
	if a.places != nil {
		return a.places[i], b
	}
	return i, b
}

// decision returns the store's decision about the bucket with index i: about all that the call takes there, if a request of it has no
// cost. Without any cost, it is whether a token is available.
func (a *asking) decision(i int) weir.Decision {
	at, b := a.bucket(i)
	take := &b.take
	if all := &a.sent[at].take; all.Spare > 0 {
		take = all
	}
	d := a.reply.Decision(at, &b.quota, take)
	if take.N == 0 && !b.clock {
		if d.OK = d.Remaining > 0; !d.OK {
			d.RetryAfter = a.reply.Until(at, &b.quota, &redisscript.Take{N: 1, Least: 1})
		}
	}
	return d
}

// wait returns the longest wait for tokens that were taken ahead of time.
func (a *asking) wait() (longest time.Duration) {
	for i := range a.buckets {
		if at, b := a.bucket(i); b.take.Ahead > 0 {
			longest = max(longest, a.reply.Wait(at, &b.quota))
		}
	}
	return longest
}
