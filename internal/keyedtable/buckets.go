package keyedtable

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/prefetch"
)

// Buckets has a token bucket for every key, at first full.
type Buckets[K comparable] struct {
	common[K]
	waiting atomic.Int64

	mu     sync.Mutex        // guards the quotas, and is held for a moment only
	quota  gcra.Quota        // of keys without their own
	quotas map[K]*gcra.Quota // of keys with their own
}

// NewBuckets returns Buckets that give every key the Quota q. The error names
// the field of cfg that makes no sense.
func NewBuckets[K comparable](q gcra.Quota, cfg Config) (*Buckets[K], error) {
	l := &Buckets[K]{quota: q, quotas: map[K]*gcra.Quota{}}
	return l, l.init(cfg, &q, nil)
}

// Allow takes a token of a key, and reports whether it had one.
func (l *Buckets[K]) Allow(key K) bool {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	now := t.now()
	s := t.shard(print)
	s.mu.Lock()
	var b gcra.Bucket
	var ok bool
	if slot := near(&s.dir, print, uint64(len(t.shards))); slot != nil && s.own == nil {
		b, ok = s.quota.Allow(gcra.Bucket(*slot), now, 1)
		*slot = uint64(b)
	} else {
		var p bucketPlace
		s.findBucket(t, &p, print, now)
		if b, ok = p.quota.Allow(p.bucket(), now, 1); ok {
			s.storeBucket(t, &p, b)
		}
	}
	if !ok {
		s.deny(print, &key)
	}
	s.mu.Unlock()
	return ok
}

// Take takes n tokens of a key, or says why not.
func (l *Buckets[K]) Take(key K, n int) weir.Decision {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	d, _ := decide(t, print, &key, t.now(), n)
	return d
}

// Decide is Take, with the Quota under which it decided, and the fingerprint of
// the key.
func (l *Buckets[K]) Decide(key K, n int) (d weir.Decision, q *gcra.Quota, print uint64) {
	t := l.table.Load()
	print = t.print(l.hash.sum, key)
	d, q = decide(t, print, &key, t.now(), n)
	return d, q, print
}

// TakeAt is Take at the time t, by fingerprint. A time before that of an earlier
// decision does no harm: nothing comes in twice. Denials are not counted in Top,
// for the key is not known.
func (l *Buckets[K]) TakeAt(print uint64, at time.Time, n int) weir.Decision {
	t := l.table.Load()
	d, _ := decide(t, print, nil, at.Sub(t.epoch), n)
	return d
}

// TakeLoose is TakeAt, unless the keys near the fingerprint are watched: then it decides nothing,
// and returns false.
func (l *Buckets[K]) TakeLoose(print uint64, at time.Time, n int) (d weir.Decision, loose bool) {
	checkCost(n)
	t := l.table.Load()
	s, now := t.shard(print), at.Sub(t.epoch)
	s.mu.Lock()
	if s.loose < 0 {
		s.mu.Unlock()
		return d, false
	}
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	b, d := p.quota.Take(p.bucket(), now, n)
	switch {
	case n == 0:
	case d.OK:
		s.storeBucket(t, &p, b)
		s.loose = max(s.loose, looseTakes(now))
	default:
		s.deny(print, nil)
	}
	s.mu.Unlock()
	return d, true
}

// LastLoose returns the time of the last TakeLoose near the fingerprint, or 1970. If watch, the keys
// near it are watched from then on, until Restore.
func (l *Buckets[K]) LastLoose(print uint64, watch bool) time.Time {
	t := l.table.Load()
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := max(s.loose, ^s.loose)
	if watch {
		s.loose = ^last
	}
	return t.epoch.Add(time.Duration(last))
}

// looseTakes is the instant of the last TakeLoose in a shard or, once its keys are watched, the
// complement of that.
type looseTakes time.Duration

// TakeUnder is TakeAt under a Quota of the call, which must have the rate of all keys and
// at most their burst, so that both count in the same units.
//
// A key that has no place may have been forgotten, and starts from what the keys that were
// forgotten near it had used. That can exceed the burst of the call, if they had larger ones.
// It says nothing about this key then: the call is allowed, and leaves the bucket empty.
func (l *Buckets[K]) TakeUnder(print uint64, at time.Time, n int, q *gcra.Quota) weir.Decision {
	checkCost(n)
	t := l.table.Load()
	now := at.Sub(t.epoch)
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	from := p.bucket()
	if p.at == 0 && p.own == nil && n <= q.Burst() {
		if empty, _ := q.Take(0, now, q.Burst()); from > empty {
			from = q.Refund(empty, n)
		}
	}
	b, d := q.Take(from, now, n)
	switch {
	case n == 0:
	case d.OK:
		s.storeBucket(t, &p, b)
	default:
		s.deny(print, nil)
	}
	return d
}

// Prefetch has the processor fetch the bucket of a fingerprint, for a TakeUnder that follows
// soon. That is for several keys: their memory is then waited for at once.
func (l *Buckets[K]) Prefetch(print uint64) {
	t := l.table.Load()
	s := t.shard(print)
	s.mu.Lock()
	if s.dir.Pages != nil {
		prefetch.Line(pagetable.Near(s.dir.Page(print, uint64(len(t.shards))), print))
	}
	s.mu.Unlock()
}

// decide takes n tokens of a key, nil if it is not known. It returns the Quota of the key, which
// does not change.
func decide[K comparable](t *table[K], print uint64, key *K, now time.Duration, n int) (weir.Decision, *gcra.Quota) {
	checkCost(n)
	s := t.shard(print)
	s.mu.Lock()
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	b, d := p.quota.Take(p.bucket(), now, n)
	switch {
	case n == 0:
	case d.OK:
		s.storeBucket(t, &p, b)
	default:
		s.deny(print, key)
	}
	s.mu.Unlock()
	return d, p.quota
}

// TakeAtMost takes as many of n tokens of a key as there are, and returns how many.
func (l *Buckets[K]) TakeAtMost(key K, n int) (part int) {
	checkCost(n)
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	s, now := t.shard(print), t.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	b, part, _ := p.quota.TakeAtMost(p.bucket(), now, n)
	switch {
	case part > 0:
		s.storeBucket(t, &p, b)
	case n > 0:
		s.deny(print, &key)
	}
	return part
}

// TokensAt returns how many tokens the key has at the time t, fractions
// included; less than zero if it is in debt, or taken ahead of time. If there is
// no limit, it is infinity.
func (l *Buckets[K]) TokensAt(key K, at time.Time) float64 {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	var p bucketPlace
	s.findBucket(t, &p, print, at.Sub(t.epoch))
	return p.quota.Tokens(p.bucket(), at.Sub(t.epoch))
}

// Settle changes the cost of work from was to n tokens, by fingerprint, and
// returns what is charged.
func (l *Buckets[K]) Settle(print uint64, was, n int) int {
	checkCost(was)
	checkCost(n)
	t := l.table.Load()
	return t.shard(print).settle(t, print, was, n, l.cfg.MaxDebt)
}

// SettleAt is Settle at the time at, for a caller with its own clock.
func (l *Buckets[K]) SettleAt(print uint64, at time.Time, was, n int) int {
	checkCost(was)
	checkCost(n)
	t := l.table.Load()
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settleLocked(t, print, at.Sub(t.epoch), was, n, l.cfg.MaxDebt)
}

// ReturnAt gives back tokens that were taken, at the time at, by fingerprint. They need not be
// whole, unless the key has its own quota, or waiters.
func (l *Buckets[K]) ReturnAt(print uint64, at time.Time, tokens float64) {
	t := l.table.Load()
	s, now := t.shard(print), at.Sub(t.epoch)
	s.mu.Lock()
	defer s.mu.Unlock()
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	switch {
	case p.own != nil:
		s.settleLocked(t, print, now, int(tokens), 0, 0)
	case p.at != 0:
		p.page[p.at] = uint64(p.quota.Return(p.bucket(), tokens))
	}
}

// Stats returns the state and the counts.
func (l *Buckets[K]) Stats() Stats {
	st := l.common.Stats()
	st.Waiting = int(l.waiting.Load())
	return st
}

// A bucketPlace is where the bucket of a key is, or could be.
type bucketPlace struct {
	place
	quota *gcra.Quota
	level pagetable.Level // of the Quota, if own is nil
	own   *own            // nil if the key has a slot or nothing
}

func (p *bucketPlace) bucket() gcra.Bucket { return gcra.Bucket(p.value.A) }

// near returns the bucket of a key that is near its home, as most are, or nil. It is not a
// method of shard, because calls are not inlined where generic code of an indirect import
// is instantiated (BenchmarkKeyed).
func near(d *pagetable.Directory, print, shards uint64) *uint64 {
	if d.Pages == nil {
		return nil
	}
	slots := pagetable.Near(d.Page(print, shards), print)
	for i := range len(slots) / 2 {
		if slots[2*i] == print {
			return &slots[2*i+1]
		}
	}
	return nil
}

// findBucket finds the place of a key, and its bucket.
func (s *shard[K]) findBucket(t *table[K], p *bucketPlace, print uint64, now time.Duration) {
	p.print = print
	if s.own != nil {
		if o := s.own[print]; o != nil {
			p.own, p.quota, p.value.A = o, o.quota, uint64(o.bucket)
			return
		}
	}
	p.quota, p.level = s.quota, pagetable.Level(s.quota.Level(now))
	if s.dir.Pages == nil {
		return
	}
	p.page = s.dir.Page(print, uint64(len(t.shards)))
	if p.at, p.spare, p.live = p.level.Find(p.page, print); p.at != 0 {
		p.value.A = p.page[p.at]
	} else {
		p.value.A = p.page[pagetable.Buckets.Floor(print)]
	}
}

// storeBucket sets the bucket of a key. A new key gets a slot, unless the bucket
// is no different from none.
func (s *shard[K]) storeBucket(t *table[K], p *bucketPlace, b gcra.Bucket) {
	switch {
	case p.own != nil:
		p.own.bucket = b
	case p.at != 0:
		p.page[p.at] = uint64(b)
	case b > gcra.Bucket(p.level) && b != p.bucket():
		add(t, s, &p.place, pagetable.Value{A: uint64(b)}, p.level)
	}
}
