// Package quota counts the tokens that keys have used under one rate, and queues
// the requests that wait for tokens.
package quota

import (
	"cmp"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
)

// Buckets count what keys have used under one rate. A limit > 0 that a method
// takes replaces the limit of the rate for that call. Instants are on the node's
// clock.
type Buckets interface {
	// Fingerprint identifies the bucket of a key until Restore.
	Fingerprint(key string) uint64
	// Take takes n tokens, or reports why it cannot. The instant must be recent.
	Take(key string, fingerprint uint64, at time.Duration, n, limit int) weir.Decision
	// Settle charges n tokens instead of the was tokens that were taken at an
	// instant. It returns the number charged.
	Settle(key string, at time.Duration, was, n int) int
	// Ahead returns the time until n more tokens are available if no other request
	// comes, where n may exceed the limit; weir.Never if that cannot happen.
	Ahead(key string, n, limit int) time.Duration
	// Used returns how many tokens are missing from a full bucket. It exceeds the
	// limit if the bucket is in debt.
	Used(key string) int
	// SetQuota changes the rate. Its Algorithm must be SameKind as before.
	SetQuota(q config.Quota)
	// Memory returns the bytes in use, and the number of counts that were dropped
	// because memory was full.
	Memory() (bytes int, dropped uint64)

	// Kind names what Snapshot holds: Restore needs the same Kind.
	Kind() string
	// Snapshot writes all counts, and Restore reads them: the time between the two
	// counts.
	Snapshot(w io.Writer) error
	Restore(r io.Reader) error
}

// MinMemory is the least memory for the buckets of a rule, in bytes.
const MinMemory = 64 << 10

// New returns full buckets, one for each key. A rule with one bucket for all keys calls
// it by the same key.
func New(c *clock.Clock, q config.Quota, per config.Per, memory int) (Buckets, error) {
	if q.Algorithm.Windows() {
		return newWindows(c, windowsOf(q), string(q.Algorithm), memory)
	}
	l, err := keyedtable.NewBuckets[string](bucketOf(q), keyedtable.Config{Memory: memory, MaxDebt: math.MaxInt32})
	return &many{l, c, string(cmp.Or(per, config.PerKey))}, err
}

// SharedWindows returns windows of one length. Every call passes its limit.
func SharedWindows(c *clock.Clock, a config.Algorithm, period time.Duration, memory int) (Buckets, error) {
	return newWindows(c, keyedtable.Window{Period: period, Sliding: a == config.Sliding}, string(a), memory)
}

// SameKind reports whether the counts of one quota can be kept under the other.
func SameKind(a, b config.Quota) bool {
	return a.Algorithm == b.Algorithm || !a.Algorithm.Windows() && !b.Algorithm.Windows()
}

// bucketOf returns a quota as one of a token bucket.
func bucketOf(q config.Quota) gcra.Quota { return gcra.Per(q.Rate.Count, q.Rate.Period, q.Limit()) }

func windowsOf(q config.Quota) keyedtable.Window {
	return keyedtable.Window{Limit: q.Rate.Count, Period: q.Rate.Period, Sliding: q.Algorithm == config.Sliding}
}

// many are token buckets, one for each key.
type many struct {
	*keyedtable.Buckets[string]
	clock *clock.Clock
	kind  string
}

func (m *many) Kind() string { return m.kind }

func (m *many) Take(key string, fingerprint uint64, at time.Duration, n, limit int) weir.Decision {
	when := m.clock.Time(at)
	d := m.TakeAt(fingerprint, when, n)
	if limit <= 0 {
		return d
	}
	q := m.QuotaFor(key)
	leave := reserve(q, limit)
	enough := d.OK && d.Remaining >= leave || n == 0
	d.Remaining -= min(leave, d.Remaining)
	if enough {
		return d
	}
	if d.OK { // beyond the limit of the request
		m.Buckets.Settle(fingerprint, n, 0)
	}
	d.OK = false
	if d.RetryAfter = weir.Never; n <= min(limit, q.Burst()) {
		d.RetryAfter = m.ahead(key, when, n, limit)
	}
	return d
}

func (m *many) Settle(key string, _ time.Duration, was, n int) int {
	return m.Buckets.Settle(m.Fingerprint(key), was, n)
}

func (m *many) Ahead(key string, n, limit int) time.Duration {
	return m.ahead(key, time.Now(), n, limit)
}

// ahead is Ahead at an instant.
func (m *many) ahead(key string, at time.Time, n, limit int) time.Duration {
	q := m.QuotaFor(key)
	lack := float64(n+reserve(q, limit)) - m.TokensAt(key, at)
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

func (m *many) Used(key string) int {
	q := m.QuotaFor(key)
	if q.Unlimited() {
		return 0
	}
	return q.Burst() - int(math.Floor(m.TokensAt(key, time.Now())))
}

func (m *many) SetQuota(q config.Quota) { m.Buckets.SetQuota(bucketOf(q)) }

func (m *many) Memory() (int, uint64) {
	st := m.Stats()
	return st.Memory, st.Forgotten
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

func newWindows(c *clock.Clock, q keyedtable.Window, kind string, memory int) (Buckets, error) {
	l, err := keyedtable.NewWindows[string](q, keyedtable.Config{Memory: memory, MaxDebt: math.MaxInt32})
	return &windows{l, c, kind}, err
}

func (w *windows) Kind() string { return w.kind }

func (w *windows) Take(_ string, fingerprint uint64, at time.Duration, n, limit int) weir.Decision {
	return w.TakeAt(fingerprint, w.clock.Time(at), n, limit)
}

func (w *windows) Settle(key string, at time.Duration, was, n int) int {
	return w.SettleAt(key, w.clock.Time(at), was, n)
}

func (w *windows) Used(key string) int {
	n, _ := w.Windows.Used(key)
	return n
}

func (w *windows) SetQuota(q config.Quota) { w.SetWindow(windowsOf(q)) }

func (w *windows) Memory() (int, uint64) {
	st := w.Stats()
	return st.Memory, st.Forgotten
}
