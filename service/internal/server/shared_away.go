package server

import (
	"cmp"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A choice is how a request is decided while the store does not answer.
type choice struct {
	step  decider.Step
	local found // the rules by whose shares the node decides
	deny  *rule // a rule that denies without its store; nil if there is none
}

// away returns how a rule decides while the store does not answer.
func (s *Shared) away(r *rule) config.Away { return cmp.Or(r.Away, s.cfg.Away) }

// choose chooses how an asking is decided while the store does not answer.
func (s *Shared) choose(a *asking) choice {
	if a.lane.Known(s.cfg.Known) {
		return choice{step: decider.Known, local: a.k}
	}
	c := choice{step: decider.Share, local: a.k}
	var shares []*rule
	for _, r := range a.k.match.rated {
		away := s.away(r)
		switch {
		case away == config.AwayShare:
			shares = append(shares, r)
			continue
		case away == config.AwayDeny && r.Mode != config.Shadow && c.deny == nil:
			c.deny = r
		}
		c.step = decider.ByRule
	}
	if len(a.k.match.rated) == 0 && s.cfg.Away != config.AwayShare { // a quota without a rule
		c.step = decider.ByRule
	}
	if c.step == decider.ByRule {
		c.local = found{match: &match{rules: a.k.match.rules, list: a.k.match.list, rated: shares}, print: a.k.print}
	}
	return c
}

// decideAway decides while the store does not answer.
func (s *Shared) decideAway(a *asking, v *decider.Verdict) error {
	c := s.choose(a)
	if c.deny != nil || a.req.Quota != nil && c.step == decider.ByRule {
		return s.decideByRule(a, &c, v)
	}
	req := *a.req
	if req.Quota != nil {
		share := s.shareOfOwn(*req.Quota)
		req.Quota = &share
	}
	if err := s.decide(a.rs, c.local, &req, v, true, nil); err != nil {
		return err
	}
	s.degraded(a, c.step, v)
	return nil
}

// decideByRule denies by a rule that denies without its store. A quota that a request brings is
// decided as the rules say, or as the node's default where there is none.
func (s *Shared) decideByRule(a *asking, c *choice, v *decider.Verdict) error {
	if len(a.k.match.list) > 0 {
		v.Rule = a.k.match.list[0].stated
	}
	retry := a.lane.RetryAfter()
	switch {
	case c.deny != nil:
		c.deny.counts.denied[weir.Closed].Add(1)
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{RetryAfter: retry}, Rule: c.deny.stated, At: v.At})
		v.Deny(weir.Closed, retry)
	case len(a.k.match.rated) == 0 && s.cfg.Away == config.AwayDeny:
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{RetryAfter: retry}, Rule: ownRule, At: v.At})
		v.Deny(weir.Closed, retry)
	default:
		v.OK = true
		v.Answers = append(v.Answers, decider.Answer{Decision: weir.Decision{OK: true}, Rule: ownRule, At: v.At})
	}
	s.degraded(a, c.step, v)
	return nil
}

// degraded marks a Verdict that the store has not made, and notes what it owes to the store.
func (s *Shared) degraded(a *asking, step decider.Step, v *decider.Verdict) {
	v.Step = step
	s.steps[step].Add(1)
	if v.OK {
		s.owe(a)
	}
	if s.cfg.OnDegraded == nil {
		return
	}
	if last := s.sampled.Load(); last == 0 || v.At-time.Duration(last) > time.Second {
		if s.sampled.CompareAndSwap(last, max(int64(v.At), 1)) {
			s.cfg.OnDegraded(a.req.Key, v)
		}
	}
}

// togetherAway decides requests that are all or nothing while the store does not answer.
func (s *Shared) togetherAway(asks []*asking, verdicts []decider.Verdict) (ok bool, err error) {
	ok = true
	for i, a := range asks {
		if v := &verdicts[i]; a != nil && len(a.buckets) > 0 {
			*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0]}
			if err := s.decideAway(a, v); err != nil {
				return false, err
			}
			ok = ok && v.OK
		}
	}
	if !ok {
		for i, a := range asks {
			if a != nil && verdicts[i].OK {
				s.forgive(a)
			}
		}
		denyRest(verdicts[:len(asks)])
	}
	return ok, nil
}

// learn keeps the node's bucket of a key at its share of what the store has left.
func (s *Shared) learn(r *rule, key string, at time.Duration, remaining int) {
	bucket := r.Bucket(key)
	print := r.buckets.Fingerprint(bucket)
	share := remaining / s.instances()
	if has := r.buckets.Take(bucket, print, at, 0, r.baseLimit).Remaining; has > share {
		r.buckets.Take(bucket, print, at, has-share, r.baseLimit)
	}
}

// shareOfOwn returns the quota of a request divided by the number of nodes.
func (s *Shared) shareOfOwn(q decider.Quota) decider.Quota {
	n := s.instances()
	if q.Unit > 0 {
		q.Count /= n
		return q
	}
	q.Period *= time.Duration(n)
	q.Burst = max(q.Limit()/n, 1)
	return q
}

// debtTerms say how a bucket is charged when the store is back.
type debtTerms struct {
	rule      config.Quota
	most      time.Duration
	instances int
}

// maxDebts bounds the buckets of a lane that owe something to the store.
const maxDebts = 1 << 16

// debts hold the tokens that the node has allowed in place of the store, by the keys of buckets.
type debts struct {
	mu  sync.Mutex // guards all
	all map[string]*debt
}

// A debt is the tokens that one bucket owes to the store. A token bucket owes less as the node's
// share is refilled. A window owes until it ends.
type debt struct {
	ask    bucketAsk
	share  gcra.Quota
	bucket gcra.Bucket   // under share
	n      int           // of a window
	until  time.Duration // of a window
}

// owe notes what a request was allowed in place of the store.
func (s *Shared) owe(a *asking) {
	for i := range a.buckets {
		if b := &a.buckets[i]; b.take.N > 0 && b.debt != nil {
			s.oweBucket(b, b.take.N)
		}
	}
}

// forgive takes back what owe has noted.
func (s *Shared) forgive(a *asking) {
	for i := range a.buckets {
		b := &a.buckets[i]
		ds := &s.debts[s.link.Lane(b.key).Index]
		ds.mu.Lock()
		if d := ds.all[b.key]; d != nil {
			if d.n = max(d.n-b.take.N, 0); !d.windows() {
				d.bucket = d.share.Refund(d.bucket, b.take.N)
			}
		}
		ds.mu.Unlock()
	}
}

func (d *debt) windows() bool { return d.ask.debt.rule.Algorithm.Windows() }

func (s *Shared) oweBucket(b *bucketAsk, n int) {
	now := s.clock.Now()
	ds := &s.debts[s.link.Lane(b.key).Index]
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.all == nil {
		ds.all = map[string]*debt{}
	}
	d := ds.all[b.key]
	if d == nil && len(ds.all) >= maxDebts {
		s.dropped.Add(1)
		return
	}
	if d == nil {
		share := divided(b.debt.rule, b.debt.instances)
		d = &debt{ask: *b, share: gcra.Per(share.Rate.Count, share.Rate.Period, share.Limit())}
		ds.all[b.key] = d
	}
	if !d.windows() {
		d.bucket, _ = d.share.Charge(d.bucket, now, n, 0)
		return
	}
	if now >= d.until {
		d.n, d.until = 0, now+b.debt.rule.Rate.Period
	}
	d.n += n
}

// owed returns how many tokens a debt is now.
func (d *debt) owed(now time.Duration) int {
	if d.windows() {
		if now >= d.until {
			return 0
		}
		return d.n
	}
	_, left := d.share.Take(d.bucket, now, 0)
	return d.share.Burst() - left.Remaining
}

// backlog returns the calls that charge the store for the debts of a lane, at most
// redislink.MaxBatch. A charge may leave a bucket in debt, if other nodes have used it meanwhile.
func (s *Shared) backlog(lane int) (calls []*redislink.Call) {
	ds := &s.debts[lane]
	now := s.clock.Now()
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for key, d := range ds.all {
		if len(calls) == redislink.MaxBatch {
			break
		}
		delete(ds.all, key)
		n := d.owed(now)
		if n == 0 {
			continue
		}
		b := d.ask
		b.take = redisscript.Take{N: n, Debt: d.ask.debt.rule.Limit(), Most: d.ask.debt.most}
		c := s.callFor([]bucketAsk{b})
		c.Then = func(a redislink.Answer) {
			if a.Err != nil {
				s.oweBucket(&d.ask, n)
			}
		}
		calls = append(calls, c)
	}
	return calls
}
