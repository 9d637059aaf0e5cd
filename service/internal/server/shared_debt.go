package server

import (
	"sync"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/memory"
)

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
			s.oweBucket(b, b.take.N, s.clock.Now()+b.debt.rule.Rate.Period)
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

// oweBucket notes tokens that a bucket owes, or the events of a window that ends at the instant
// until.
func (s *Shared) oweBucket(b *bucketAsk, n int, until time.Duration) {
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
		share := memory.Divided(b.debt.rule, b.debt.instances)
		d = &debt{ask: *b, share: gcra.Per(share.Rate.Count, share.Rate.Period, share.Limit())}
		ds.all[b.key] = d
	}
	if !d.windows() {
		d.bucket, _ = d.share.Charge(d.bucket, now, n, 0)
		return
	}
	if now >= d.until {
		d.n, d.until = 0, until
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
			switch a.Err {
			case nil:
			case redislink.ErrAway:
				s.oweBucket(&d.ask, n, d.until)
			default: // the key has a value of another type
				s.dropped.Add(1)
			}
		}
		calls = append(calls, c)
	}
	return calls
}
