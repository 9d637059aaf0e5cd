package keyedtable

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/retrystep"
	"github.com/weir-go/weir/internal/waitq"
)

// Wait waits, behind the other calls for the same key, until n events of the key
// may happen, and counts them, as keyed.Limiter.Wait says.
func (l *Buckets[K]) Wait(ctx context.Context, key K, n int) error {
	checkCost(n)
	if err := ctx.Err(); err != nil {
		return err
	}
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	w, err := l.enter(ctx, t, print, key, n)
	if w == nil {
		return err
	}
	defer l.waiting.Add(-1)
	s := t.shard(print)
	return waitq.AwaitTokens(ctx, w,
		func(w *waitq.TokenWaiter, expired bool) bool { return s.leave(t, print, w, expired) },
		func(n int) { s.settle(t, print, n, 0, 0) })
}

// enter lets n events happen (nil, nil), refuses them (an error) or queues a
// waiter for them.
func (l *Buckets[K]) enter(ctx context.Context, t *table[K], print uint64, key K, n int) (*waitq.TokenWaiter, error) {
	now := t.now()
	deadline, why := waitq.Within(ctx, t.epoch, now, l.cfg.MaxWait)
	if l.cfg.Queue < 0 {
		deadline, why = now, weir.OverRate
	}
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	b, wait, ok := p.quota.Reserve(p.bucket(), now, n, waitq.Left(deadline, now))
	if !ok {
		s.deny(print, &key)
		if n > p.quota.Burst() {
			why = weir.OverBurst
		}
		return nil, weir.Reject(why, retrystep.Up(wait))
	}
	if wait == 0 {
		s.storeBucket(t, &p, b)
		return nil, nil
	}
	// A key may take as many places as stay free (Choudhury and Hahne, "Dynamic Queue
	// Length Thresholds for Shared-Memory Packet Switches", 1998).
	mine := 0
	if p.own != nil {
		mine = p.own.queue.Len()
	}
	if free := int64(waitq.Bound(l.cfg.Queue)) - l.waiting.Add(1); int64(mine) > free {
		l.waiting.Add(-1)
		s.deny(print, &key)
		return nil, weir.Reject(weir.QueueFull, retrystep.Up(wait))
	}
	o := s.detach(t, &p)
	o.bucket = b
	w := o.queue.Join(o.quota, b, n, deadline, why)
	o.queue.Serve(o.quota, now)
	return w, nil
}

// leave takes a call out of the queue of a key, and reports whether it was there.
func (s *shard[K]) leave(t *table[K], print uint64, w *waitq.TokenWaiter, expired bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.own[print]
	if o == nil { // w was answered, and no call waits for the key
		return false
	}
	now := t.now()
	left := o.queue.Leave(o.quota, now, w, expired, o)
	s.attach(t, print, o, now)
	return left
}

// settle changes the cost of work from was to n, and returns what it is then.
func (s *shard[K]) settle(t *table[K], print uint64, was, n, maxDebt int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settleLocked(t, print, t.now(), was, n, maxDebt)
}

func (s *shard[K]) settleLocked(t *table[K], print uint64, now time.Duration, was, n, maxDebt int) int {
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	if n > was {
		return was + s.charge(t, &p, now, n-was, maxDebt)
	}
	switch { // a key without a bucket has a full one, or is forgotten
	case p.own != nil:
		p.own.queue.GiveBack(p.quota, now, 0, was-n, p.own)
		s.attach(t, print, p.own, now)
	case p.at != 0:
		p.page[p.at] = uint64(p.quota.Refund(p.bucket(), was-n))
	}
	return n
}

// charge takes n tokens, those to come included, into bounded debt, and
// returns how many it took.
func (s *shard[K]) charge(t *table[K], p *bucketPlace, now time.Duration, n, maxDebt int) int {
	maxDebt = waitq.Debt(maxDebt, p.quota)
	if p.own == nil {
		b, took := p.quota.Charge(p.bucket(), now, n, maxDebt)
		s.storeBucket(t, p, b)
		return took
	}
	took := p.own.queue.Charge(p.quota, now, n, maxDebt, p.own)
	s.attach(t, p.print, p.own, now)
	return took
}

// own is the bucket of a key that has waiters, or a quota for it alone.
type own struct {
	quota  *gcra.Quota
	kept   bool // the quota is its own
	bucket gcra.Bucket
	queue  waitq.TokenQueue
}

// Load and CompareAndSwap make own the Bucket of its queue.
func (o *own) Load() gcra.Bucket { return o.bucket }

func (o *own) CompareAndSwap(_, b gcra.Bucket) bool {
	o.bucket = b
	return true
}

// detach moves the bucket of a key out of the slot that it may have.
func (s *shard[K]) detach(t *table[K], p *bucketPlace) *own {
	if p.own != nil {
		return p.own
	}
	if p.at != 0 {
		p.page[p.at] = 0 // free
	}
	if s.own == nil {
		s.own = map[uint64]*own{}
	}
	o := &own{quota: p.quota, bucket: p.bucket()}
	print := p.print
	o.queue.Wake = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := t.now()
		o.queue.Fired()
		o.queue.Serve(o.quota, now)
		s.attach(t, print, o, now)
	}
	s.own[print] = o
	return o
}

// attach moves the bucket of a key back into a slot, once a slot can hold it.
func (s *shard[K]) attach(t *table[K], print uint64, o *own, now time.Duration) {
	if o.kept || o.queue.Len() > 0 || s.own[print] != o {
		return
	}
	if delete(s.own, print); len(s.own) == 0 {
		s.own = nil
	}
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	s.storeBucket(t, &p, o.bucket)
}
