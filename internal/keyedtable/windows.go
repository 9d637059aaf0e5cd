package keyedtable

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pagetable"
)

// Windows counts the events of every key in windows of time.
type Windows[K comparable] struct {
	common[K]
	rule *pagetable.Rule // of the present Window; guarded by changes
}

// NewWindows returns Windows that give every key the Window w. The error names the
// field of cfg that makes no sense.
func NewWindows[K comparable](w Window, cfg Config) (*Windows[K], error) {
	l := &Windows[K]{rule: pagetable.NewRule(w, cfg.MaxDebt)}
	return l, l.init(cfg, nil, l.rule)
}

// Follow has Windows take the present time from now, for a simulation. Call it before any other method.
func (l *Windows[K]) Follow(now func() time.Time) { l.table.Load().clock = now }

// Take counts n events of a key if they are within the limit, or says why not. A
// limit > 0 counts instead of the Window's, for this call alone and against the
// same count. With n = 0 it counts nothing, and allows.
func (l *Windows[K]) Take(key K, n, limit int) weir.Decision {
	checkCost(n)
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	return t.shard(print).take(t, print, &key, t.now(), n, limit)
}

// Decide is Take, with the fingerprint of the key and the time of the decision, for Settle.
func (l *Windows[K]) Decide(key K, n int) (d weir.Decision, print uint64, at time.Duration) {
	checkCost(n)
	t := l.table.Load()
	print, at = t.print(l.hash.sum, key), t.now()
	return t.shard(print).take(t, print, &key, at, n, 0), print, at
}

// TakeAt is Take at the time t, which is not long ago, by fingerprint: a window
// may begin then. Denials are not counted in Top, for the key is not known.
func (l *Windows[K]) TakeAt(print uint64, at time.Time, n, limit int) weir.Decision {
	checkCost(n)
	t := l.table.Load()
	return t.shard(print).take(t, print, nil, at.Sub(t.epoch), n, limit)
}

// SettleAt changes the cost of work, which was counted just before the time at,
// from was to n events, as keyed.Windows.Settle says.
func (l *Windows[K]) SettleAt(key K, at time.Time, was, n int) int {
	checkCost(was)
	checkCost(n)
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	now := t.now()
	return t.shard(print).settleAt(t, print, min(at.Sub(t.epoch), now), now, was, n)
}

// Settle is SettleAt by fingerprint, for work that was counted by a Decide.
func (l *Windows[K]) Settle(print uint64, at time.Duration, was, n int) int {
	checkCost(was)
	checkCost(n)
	t := l.table.Load()
	now := t.now()
	return t.shard(print).settleAt(t, print, min(at, now), now, was, n)
}

// Reset forgets the events of a key, also those of the window before if windows slide, and returns
// how many counted.
func (l *Windows[K]) Reset(key K) (used int) {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	s, now := t.shard(print), t.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var p place
	s.find(t, &p, print)
	used, _ = s.rule.Used(p.value, now)
	s.storeCount(t, &p, now, pagetable.Value{})
	return used
}

// Used returns how many events of the key count at present, and how long it
// takes until none does if no more come. If windows slide it is the estimate,
// rounded up.
func (l *Windows[K]) Used(key K) (used int, resetIn time.Duration) {
	r, now, p := l.look(key)
	return r.Used(p.value, now)
}

// Ahead returns when, from now, n events more of the key have been counted, if
// they come one by one, each as soon as it can, and no other events come. n may
// exceed the limit, and take several windows. The result is exact for that;
// events that are counted several at a time may have to wait for longer. It is
// weir.Never if they are never all counted. A limit > 0 counts instead of the
// Window's.
func (l *Windows[K]) Ahead(key K, n, limit int) time.Duration {
	checkCost(n)
	r, now, p := l.look(key)
	if limit > 0 {
		r.Limit = min(limit, MaxLimit)
	}
	return r.Ahead(p.value, now, n, p.at == 0)
}

// look returns the Rule, and the count of a key at present.
func (l *Windows[K]) look(key K) (r pagetable.Rule, now time.Duration, p place) {
	t := l.table.Load()
	print := t.print(l.hash.sum, key)
	s := t.shard(print)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(t, &p, print)
	return *s.rule, t.now(), p
}

// SetWindow changes the Window, as keyed.Windows.SetWindow says.
func (l *Windows[K]) SetWindow(w Window) {
	l.changes.Lock()
	defer l.changes.Unlock()
	l.rule = pagetable.NewRule(w, l.cfg.MaxDebt)
	t := l.table.Load()
	for i := range t.shards {
		t.shards[i].setRule(t, l.rule)
	}
}

// SetMemory is Buckets.SetMemory.
func (l *Windows[K]) SetMemory(memory int) int {
	return l.setMemory(memory, func(t *table[K], s *shard[K], depth uint8) (int, uint64) {
		return pagetable.Merge(&s.dir, t.layout, depth, s.rule.At(t.now()))
	})
}

// take is Windows.Take of a key, nil if it is not known.
func (s *shard[K]) take(t *table[K], print uint64, key *K, now time.Duration, n, limit int) weir.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p place
	s.find(t, &p, print)
	if limit <= 0 {
		limit = s.rule.Limit
	}
	c, d := s.rule.Take(p.value, now, n, limit)
	switch {
	case n == 0:
	case !d.OK:
		s.deny(print, key)
	default:
		fresh := p.at == 0
		s.storeCount(t, &p, now, c)
		if fresh && !s.rule.Sliding && !s.rule.Dated() {
			d.ResetAfter = s.rule.Period // it begins its own window, whatever it starts from
		}
	}
	return d
}

// settleAt is Windows.SettleAt. at is not after now.
func (s *shard[K]) settleAt(t *table[K], print uint64, at, now time.Duration, was, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p place
	s.find(t, &p, print)
	switch {
	case n > was:
		c, took := s.rule.Charge(p.value, now, n-was)
		s.storeCount(t, &p, now, c)
		return was + took
	case p.at == 0:
		return was
	}
	c, back := s.rule.Refund(p.value, at, now, was-n)
	t.layout.Set(p.page, p.at, c)
	return was - back
}

// storeCount sets the count of a key. A new key gets a slot, unless nothing is
// counted.
func (s *shard[K]) storeCount(t *table[K], p *place, now time.Duration, c pagetable.Value) {
	switch {
	case p.at != 0:
		t.layout.Set(p.page, p.at, c)
	case c != p.value:
		add(t, s, p, s.rule.Begin(c, now), s.rule.At(now))
	}
}

// setRule puts all counts under another rule.
func (s *shard[K]) setRule(t *table[K], r *pagetable.Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.rule
	if s.rule = r; r.Alike(from) {
		return
	}
	now := t.now()
	s.dir.Change(t.layout, func(c pagetable.Value) pagetable.Value { return r.Moved(c, now, from) })
}
