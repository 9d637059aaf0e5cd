package keyedtable

import (
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/pagetable"
)

// SetQuota changes the Quota of all keys that have no other, as
// keyed.Limiter.SetQuota says.
func (l *Buckets[K]) SetQuota(q gcra.Quota) {
	l.changes.Lock()
	defer l.changes.Unlock()
	l.mu.Lock()
	l.quota = q
	l.mu.Unlock()
	t := l.table.Load()
	for i := range t.shards {
		t.shards[i].setQuota(t, &q)
	}
}

// SetMemory bounds the memory for buckets from now on. If they do not fit, keys are
// forgotten as they are when memory is full. It returns the bound, in bytes, which can
// exceed a memory that is much less than at first.
func (l *Buckets[K]) SetMemory(memory int) int {
	return l.setMemory(memory, func(t *table[K], s *shard[K], depth uint8) (int, uint64) {
		return pagetable.Merge(&s.dir, t.layout, depth, pagetable.Level(s.quota.Level(t.now())))
	})
}

// SetQuotaFor gives a key a Quota that is for it alone, or with nil the Quota of all
// again.
func (l *Buckets[K]) SetQuotaFor(key K, q *gcra.Quota) {
	key = shown(key)
	l.changes.Lock()
	defer l.changes.Unlock()
	if next, changed := l.keepQuota(key, q); changed {
		l.setQuotaFor(l.table.Load(), key, &next, q != nil)
	}
}

// keepQuota keeps the Quota of a key, or forgets it if q is nil. It returns the Quota that
// the key is under, and whether it has or had its own. It panics, without the
// mutex held, if the key has no hash.
func (l *Buckets[K]) keepQuota(key K, q *gcra.Quota) (next gcra.Quota, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, next := l.quotas[key], l.quota
	if delete(l.quotas, key); q != nil {
		next = *q
		l.quotas[key] = &next
	}
	return next, own != nil || q != nil
}

// QuotaFor returns the Quota that a key is under.
func (l *Buckets[K]) QuotaFor(key K) gcra.Quota {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.quotas[shown(key)]; q != nil {
		return *q
	}
	return l.quota
}

func (l *Buckets[K]) setQuotaFor(t *table[K], key K, q *gcra.Quota, kept bool) {
	print := t.print(l.hash.sum, key)
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := t.now()
	var p bucketPlace
	s.findBucket(t, &p, print, now)
	o := s.detach(t, &p)
	o.kept = kept
	o.change(now, q)
	s.attach(t, print, o, now)
}

func (s *shard[K]) setQuota(t *table[K], q *gcra.Quota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, from := t.now(), s.quota
	full := from.Level(now)
	s.dir.Change(t.layout, func(v pagetable.Value) pagetable.Value {
		if gcra.Bucket(v.A) <= full {
			return pagetable.Value{}
		}
		return pagetable.Value{A: uint64(from.Move(gcra.Bucket(v.A), now, q))}
	})
	s.quota = q
	for print, o := range s.own {
		if !o.kept {
			o.change(now, q)
			s.attach(t, print, o, now)
		}
	}
}

// change puts a bucket and the calls that wait for it under another quota.
func (o *own) change(now time.Duration, q *gcra.Quota) {
	from := o.quota
	o.quota = q
	if o.bucket <= from.Level(now) {
		o.bucket = 0 // and so it stays
		return
	}
	o.bucket = from.Move(o.bucket, now, q)
	o.queue.Change(from, now, q, o)
}
