// Package quota counts the tokens that keys have used under one rate, and queues
// the requests that wait for tokens.
package quota

import (
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/internal/waitq"
	"github.com/weir-go/weir/internal/window"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
)

// Buckets count what keys have used under one rate. A limit > 0 that a method
// takes replaces the limit of the rate for that call. Instants are on the node's
// clock.
type Buckets interface {
	// Fingerprint identifies the bucket of a key until Restore.
	Fingerprint(key string) uint64
	// Take takes n tokens, or reports why it cannot. The instant must be recent. If tracked, a
	// token bucket remembers the take for Settle, which otherwise may return fewer tokens.
	Take(key string, fingerprint uint64, at time.Duration, n, limit int, tracked bool) weir.Decision
	// Settle charges n tokens instead of the was tokens that were taken at an
	// instant. It returns the number charged.
	Settle(key string, at time.Duration, was, n int) int
	// Ahead returns the time until n more tokens are available if no other request
	// comes, where n may exceed the limit; weir.Never if that cannot happen.
	Ahead(key string, n, limit int) time.Duration
	// Used returns how many tokens are missing from a full bucket. It exceeds the
	// limit if the bucket is in debt.
	Used(key string) int
	// Reset makes the bucket of a key full, and returns how many tokens were missing, debts
	// included.
	Reset(key string) (used int)
	// SetQuota changes the rate. Its kind must be as before: see rules.SameKind.
	SetQuota(q config.Quota)
	// SetMemory changes the bound on the memory, and returns the bound that it could set,
	// in bytes.
	SetMemory(most int) int
	// Memory returns the bytes in use, the bound on them, and the number of counts that
	// were dropped because memory was full.
	Memory() (bytes, most int, dropped uint64)

	// Kind names what Snapshot holds: Restore needs the same Kind.
	Kind() string
	// Snapshot writes all counts, and Restore reads what was written at an instant: the time
	// between the two counts.
	Snapshot(w io.Writer) error
	Restore(r io.Reader, written time.Duration) error
	// Share gives fingerprints the seed of a fleet, before any other use: see keyedtable.
	Share(seed siphash.Key)
	// Extract takes the counts of the keys of some slots out, and passes them to emit in parts
	// of up to 70 KB. One bucket for all keys is taken out whatever the slots are.
	Extract(slots *slot.Set, emit func(part []byte) error) error
	// Absorb adds a part of buckets of the same Kind. What a key has used in both adds up, to a
	// debt of at most maxDebt tokens.
	Absorb(part []byte, maxDebt int) error
}

// MinMemory is the least memory for the buckets of a rule, in bytes.
const MinMemory = 64 << 10

// maxDebt bounds the tokens that a bucket can owe.
const maxDebt = math.MaxInt32

// New returns full buckets, one for each key, or one for all. Windows for all keys are
// those of one key: the rule calls them by the same key.
func New(c *clock.Clock, q config.Quota, per config.Per, memory int) (Buckets, error) {
	if q.Algorithm == config.FixedWindow {
		all, err := newWindows(c, windowsOf(q), string(q.Algorithm), memory)
		w := &clockWindows{windows: all, epoch: waitq.Epoch()}
		w.quota.Store(&q)
		return w, err
	}
	if q.Algorithm.Windows() {
		return newWindows(c, windowsOf(q), string(q.Algorithm), memory)
	}
	if per == config.PerRule {
		return &tokens{newSingle(bucketOf(q)), c, string(per), newUsages(bucketOf(q), memory)}, nil
	}
	l, err := keyedtable.NewBuckets[string](bucketOf(q), keyedtable.Config{Memory: memory, MaxDebt: maxDebt})
	return &tokens{l, c, string(config.PerKey), newUsages(bucketOf(q), memory)}, err
}

// SharedWindows returns windows of one length. Every call passes its limit.
func SharedWindows(c *clock.Clock, a config.Algorithm, period time.Duration, memory int) (Buckets, error) {
	return newWindows(c, keyedtable.Window{Period: period, Sliding: a == config.Sliding}, string(a), memory)
}

// bucketOf returns a quota as one of a token bucket.
func bucketOf(q config.Quota) gcra.Quota { return gcra.Per(q.Rate.Count, q.Rate.Period, q.Limit()) }

func windowsOf(q config.Quota) keyedtable.Window {
	w := keyedtable.Window{Limit: q.Rate.Count, Period: q.Rate.Period, Sliding: q.Algorithm == config.Sliding}
	switch q.Algorithm { // a table counts time since 1970
	case config.FixedWindow:
		w.Calendar = window.Every(w.Period, 0)
	case config.Calendar:
		w.Calendar, w.Period = q.Calendar()
	}
	return w
}

// tokens are token buckets: one for each key, or one for all.
type tokens struct {
	tokenBuckets
	clock  *clock.Clock
	kind   string
	usages *usages
}

// tokenBuckets is the common interface of keyedtable.Buckets and single.
type tokenBuckets interface {
	Fingerprint(key string) uint64
	TakeAt(fingerprint uint64, at time.Time, n int) weir.Decision
	TakeLoose(fingerprint uint64, at time.Time, n int) (d weir.Decision, loose bool)
	LastLoose(fingerprint uint64, watch bool) time.Time
	SettleAt(fingerprint uint64, at time.Time, was, n int) int
	ReturnAt(fingerprint uint64, at time.Time, tokens float64)
	TokensAt(key string, at time.Time) float64
	QuotaFor(key string) gcra.Quota
	SetQuota(q gcra.Quota)
	Stats() keyedtable.Stats
	SetMemory(most int) int
	MemoryMost() int
	Snapshot(w io.Writer) error
	Restore(r io.Reader) error
	Share(seed siphash.Key)
	Extract(slots *slot.Set, emit func(part []byte) error) error
	Absorb(part []byte, maxDebt int) error
}

func (t *tokens) Kind() string { return t.kind }

func (t *tokens) Take(key string, fingerprint uint64, at time.Duration, n, limit int, tracked bool) weir.Decision {
	when := t.clock.Time(at)
	if !tracked {
		if d, loose := t.TakeLoose(fingerprint, when, n); loose {
			if limit > 0 {
				d = t.within(d, key, fingerprint, when, n, limit)
			}
			return d
		}
	}
	s := t.usages.shard(fingerprint)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tracked && s.find(fingerprint) == nil {
		t.recall(s, fingerprint, true)
	}
	d := t.TakeAt(fingerprint, when, n)
	if limit > 0 {
		d = t.within(d, key, fingerprint, when, n, limit)
	}
	if d.OK && n > 0 {
		s.note(t.usages.pace.Load(), fingerprint, at, n, d.ResetAfter, tracked)
	}
	return d
}

// recall tells a shard when tokens were last taken from a bucket without a log. If watch, the
// shard is told of later ones as they are made.
func (t *tokens) recall(s *usageShard, fingerprint uint64, watch bool) {
	s.before = max(s.before, t.LastLoose(fingerprint, watch).Sub(t.clock.Time(0)))
}

// within returns what was decided as a decision under the limit of the request. If that denies,
// it gives back what was taken.
func (t *tokens) within(d weir.Decision, key string, fingerprint uint64, when time.Time, n, limit int) weir.Decision {
	q := t.QuotaFor(key)
	leave := reserve(q, limit)
	enough := d.OK && d.Remaining >= leave || n == 0
	d.Remaining -= min(leave, d.Remaining)
	if enough {
		return d
	}
	if d.OK { // beyond the limit of the request
		t.SettleAt(fingerprint, when, n, 0)
	}
	d.OK = false
	if d.RetryAfter = weir.Never; n <= min(limit, q.Burst()) {
		d.RetryAfter = t.ahead(key, when, n, limit)
	}
	return d
}

func (t *tokens) Settle(key string, at time.Duration, was, n int) int {
	q, fingerprint := t.QuotaFor(key), t.Fingerprint(key)
	if q == gcra.Unlimited() {
		return n
	}
	s, p := t.usages.shard(fingerprint), t.usages.pace.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := t.clock.Now()
	when := t.clock.Time(now)
	missing := float64(q.Burst()) - t.TokensAt(key, when)
	if n < was {
		if s.find(fingerprint) == nil {
			t.recall(s, fingerprint, false)
		}
		back, charged := s.settle(p, fingerprint, at, now, missing, was, n)
		t.ReturnAt(fingerprint, when, back)
		return charged
	}
	charged := t.SettleAt(fingerprint, when, was, n)
	if charged > was {
		s.note(p, fingerprint, now, charged-was, weir.Never, false)
	}
	return charged
}

func (t *tokens) Ahead(key string, n, limit int) time.Duration {
	return t.ahead(key, t.clock.Time(t.clock.Now()), n, limit)
}

// ahead is Ahead at an instant.
func (t *tokens) ahead(key string, at time.Time, n, limit int) time.Duration {
	q := t.QuotaFor(key)
	lack := float64(n+reserve(q, limit)) - t.TokensAt(key, at)
	switch {
	case lack <= 0:
		return 0
	case q.Rate() <= 0:
		return weir.Never
	}
	if ns := math.Ceil(lack / q.Rate() * 1e9); ns < math.MaxInt64 {
		return time.Duration(ns)
	}
	return weir.Never
}

func (t *tokens) Used(key string) int {
	q := t.QuotaFor(key)
	if q == gcra.Unlimited() {
		return 0
	}
	return q.Burst() - int(math.Floor(t.TokensAt(key, t.clock.Time(t.clock.Now()))))
}

func (t *tokens) Reset(key string) int {
	used := max(t.Used(key), 0)
	t.SettleAt(t.Fingerprint(key), t.clock.Time(t.clock.Now()), used, 0)
	return used
}

func (t *tokens) SetQuota(q config.Quota) {
	t.tokenBuckets.SetQuota(bucketOf(q))
	t.usages.setQuota(bucketOf(q), t.clock.Now())
}

func (t *tokens) SetMemory(most int) int {
	t.usages.setMemory(most)
	return t.tokenBuckets.SetMemory(most)
}

func (t *tokens) Restore(r io.Reader, written time.Duration) error {
	err := t.tokenBuckets.Restore(r)
	t.usages.forget(written)
	return err
}

func (t *tokens) Absorb(part []byte, maxDebt int) error {
	err := t.tokenBuckets.Absorb(part, maxDebt)
	t.usages.forget(t.clock.Now())
	return err
}

func (t *tokens) Memory() (bytes, most int, dropped uint64) {
	st := t.Stats()
	return st.Memory, t.MemoryMost(), st.Forgotten
}

// reserve returns how many tokens a request with its own limit must leave in the
// bucket, so that at most the limit is in use.
func reserve(q gcra.Quota, limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(q.Burst()-limit, 0)
}

// windows are counts in windows, one for each key.
type windows struct {
	*keyedtable.Windows[string]
	clock *clock.Clock
	kind  string
}

func newWindows(c *clock.Clock, q keyedtable.Window, kind string, memory int) (*windows, error) {
	l, err := keyedtable.NewWindows[string](q, keyedtable.Config{Memory: memory, MaxDebt: maxDebt})
	if err == nil && c.Simulated() {
		l.Follow(func() time.Time { return c.Time(c.Now()) })
	}
	return &windows{l, c, kind}, err
}

func (w *windows) Kind() string { return w.kind }

func (w *windows) Take(_ string, fingerprint uint64, at time.Duration, n, limit int, _ bool) weir.Decision {
	return w.TakeAt(fingerprint, w.clock.Time(at), n, limit)
}

func (w *windows) Settle(key string, at time.Duration, was, n int) int {
	return w.SettleAt(key, w.clock.Time(at), was, n)
}

func (w *windows) Used(key string) int {
	n, _ := w.Windows.Used(key)
	return n
}

func (w *windows) Restore(r io.Reader, _ time.Duration) error { return w.Windows.Restore(r) }

// Absorb ignores the bound on debts: a count does not outlast its window.
func (w *windows) Absorb(part []byte, _ int) error { return w.Windows.Absorb(part) }

func (w *windows) SetQuota(q config.Quota) { w.SetWindow(windowsOf(q)) }

func (w *windows) Memory() (bytes, most int, dropped uint64) {
	st := w.Stats()
	return st.Memory, w.MemoryMost(), st.Forgotten
}

// clockWindows are windows of the clock that also count requests which they deny: see
// config.FixedWindow.
type clockWindows struct {
	*windows
	epoch time.Time // 1970
	quota atomic.Pointer[config.Quota]
}

func (w *clockWindows) SetQuota(q config.Quota) {
	w.quota.Store(&q)
	w.windows.SetQuota(q)
}

// Take counts a denied request after the denial. A request between the two is as one
// before both.
func (w *clockWindows) Take(key string, fingerprint uint64, at time.Duration, n, limit int, tracked bool) weir.Decision {
	d := w.windows.Take(key, fingerprint, at, n, limit, tracked)
	if n > 0 && !d.OK {
		w.Settle(key, at, 0, n)
		d.Remaining = 0
	}
	return w.until(d, at)
}

// look reports whether no more than the limit is counted, without counting anything.
func (w *clockWindows) look(key string, fingerprint uint64, at time.Duration, limit int) weir.Decision {
	d := w.until(w.windows.Take(key, fingerprint, at, 0, limit, false), at)
	if limit <= 0 {
		limit = w.quota.Load().Rate.Count
	}
	if d.OK = d.Remaining > 0 || w.Used(key) <= limit; !d.OK {
		d.RetryAfter = d.ResetAfter
	}
	return d
}

// until sets ResetAfter to the end of the window, also if nothing is counted in it.
func (w *clockWindows) until(d weir.Decision, at time.Duration) weir.Decision {
	if d.ResetAfter <= 0 {
		now := w.clock.Time(at).Sub(w.epoch)
		_, end := windowsOf(*w.quota.Load()).Calendar.At(now)
		d.ResetAfter = end - now
	}
	return d
}
