// Package keyed limits the rate of every user, tenant or address at once, or its work in flight,
// in bounded memory.
//
// A limiter for each user in a map grows without bound, needs a sweep, and lets
// an attacker fill memory with keys. A Limiter has a token bucket for each key in
// a table of fixed size; Windows counts events in windows of time in such a table; Inflight
// counts the work of each key that is in flight.
//
//	lim, err := keyed.New[string](rate.Per(100, time.Minute, 20), keyed.Config{})
//	...
//	if !lim.Allow(user) {
//		http.Error(w, "too many requests", http.StatusTooManyRequests)
//	}
//
// # Memory
//
// A table stores a 64-bit fingerprint of each key, not the key itself, and a word for a
// bucket, or two for a count of a window. Memory is allocated in pages, up to
// Config.Memory. A bucket that is full again, or a count of a window that has ended, is
// equivalent to a missing one: its place is given to the next key that needs one.
//
// Two keys with the same fingerprint share a bucket: 1 in 37 million for a million keys.
// The hash is seeded at random, so that an attacker cannot compute such keys.
//
// # When memory is full
//
// If all 32 places that a key may have are taken by buckets in debt, the bucket
// in least debt is forgotten, and its page remembers that debt: a key that has no
// place starts with it. That bounds what a flood of fresh keys can do.
//
//   - No key is allowed too much. A key that was forgotten and comes back finds at most
//     the tokens that it would have had. A client gains nothing by causing evictions.
//   - A key that has a place gets exactly the decisions that it would get if it were
//     the only key.
//   - A key without a place may be denied wrongly. It lacks at most the debt of the
//     bucket that was forgotten, which was the least among 32. Suppose new keys arrive
//     with a cost of one token each. Up to nine tenths of the rate at which the whole
//     table refills (61 keys a kibibyte × the rate of one key), a key without a place
//     lacks one token at most. Above that rate, once every bucket is a burst in debt,
//     most keys without a place are denied.
//
// With windows, the count with the fewest events is forgotten instead. Suppose each key
// comes once, and the keys of a period (of two periods if windows slide) need at most
// seven tenths of the places (40 a kibibyte). Then few counts are forgotten, and a key
// without a place lacks one event. A fixed window that begins with this event lasts a
// whole period.
//
// # When not to use it
//
// For a handful of keys known beforehand, a map of rate.Limiters is simpler. Do not use
// a key that the client can choose, such as a header or a name before login: use an
// address or an account.
package keyed

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/topk"
)

// Defaults where Config leaves a field open, and the bounds of Config.Memory.
const (
	DefaultMemory = 64 << 20 // bytes
	DefaultQueue  = 65536    // calls
	MinMemory     = 64 << 10 // bytes of Config.Memory
	MaxMemory     = 1 << 40  // bytes of Config.Memory
)

// The bounds that package keyedtable applies are equal to the documented ones.
var (
	_ [0]struct{} = [DefaultMemory - keyedtable.DefaultMemory]struct{}{}
	_ [0]struct{} = [DefaultQueue - keyedtable.DefaultQueue]struct{}{}
	_ [0]struct{} = [MinMemory - keyedtable.MinMemory]struct{}{}
	_ [0]struct{} = [MaxMemory - keyedtable.MaxMemory]struct{}{}
	_ [0]struct{} = [MaxLimit - keyedtable.MaxLimit]struct{}{}
	_ [0]struct{} = [MinPeriod - keyedtable.MinPeriod]struct{}{}
)

// Config configures New and NewWindows. The zero value is ready to use.
type Config struct {
	// Memory bounds the memory for buckets or counts, in bytes: from MinMemory to
	// MaxMemory. If zero, DefaultMemory. Beside it are the calls that wait, at some
	// 500 bytes each; the quotas of single keys; and the keys most denied, up to
	// eight for each 128 kB, whatever their size (see Top).
	Memory int
	// Queue bounds the number of calls that wait, of all keys together. Calls of one key
	// take as many places as stay free: at most half, so that no key takes all. If
	// zero, DefaultQueue; if negative, no call waits. Windows do not use it.
	Queue int
	// MaxWait bounds the time that Wait and Acquire wait. If zero, only the context
	// bounds it; if negative, no call waits. Windows do not use it.
	MaxWait time.Duration
	// MaxDebt bounds the debt of a key, in tokens or events, that Settle and a Permit's
	// Use can make. If zero, it is the burst or the limit; if negative, there is no
	// debt.
	MaxDebt int
}

// A Limiter has a token bucket for every key. Buckets are full at first. It is safe for
// concurrent use, and starts no goroutine.
//
// Keys of any comparable type will do, if they are equal to themselves: a NaN is
// a new key each time. Strings, integers, arrays of bytes, netip.Addr and
// netip.Prefix have a hash that does not depend on the process, which lets
// Snapshot work. An IPv6 netip.Addr counts as its network of 64 bits, the usual size
// for one client; for other sizes use keys of type netip.Prefix. An IPv4 address or
// prefix is the same key in its IPv6-mapped form.
type Limiter[K comparable] struct {
	buckets *keyedtable.Buckets[K]
	state[K]
	owner weir.Owner // of the permits of Decide
	told  atomic.Pointer[quotaPolicy]
}

// A quotaPolicy is the Policy of a Quota in a table, which does not change.
type quotaPolicy struct {
	quota  *gcra.Quota
	policy Policy
}

// New returns a Limiter that gives every key the Quota q. The error names the field of
// cfg that makes no sense.
func New[K comparable](q gcra.Quota, cfg Config) (*Limiter[K], error) {
	b, err := keyedtable.NewBuckets[K](q, keyedtable.Config(cfg))
	if err != nil {
		return nil, err
	}
	return &Limiter[K]{buckets: b, state: state[K]{b}, owner: bucketOwner[K]{b}}, nil
}

// Allow reports whether an event of the key may happen now, and counts it if so.
func (l *Limiter[K]) Allow(key K) bool { return l.buckets.Allow(key) }

// Take is Allow for n events. Its Decision also tells how many more may happen now,
// and when to retry. RetryAfter is weir.Never if no wait will help. With n = 0 it takes
// nothing, and is denied only in debt. It panics if n < 0.
func (l *Limiter[K]) Take(key K, n int) weir.Decision { return l.buckets.Take(key, n) }

// Decide is Take with the Policy of the key, and with a Permit by which the cost is settled. It
// makes the Limiter a Decider. The error is nil.
func (l *Limiter[K]) Decide(_ context.Context, key K, n int) (Verdict, error) {
	d, q, print := l.buckets.Decide(key, n)
	policy := l.policy(q)
	if !d.OK {
		return Verdict{Decision: d, Policy: policy}, nil
	}
	return Verdict{d, policy, weir.OwnedPermit(&l.owner, weir.Grant{N: n, Note: print})}, nil
}

// policy returns the Policy of a Quota. That of all keys is computed once.
func (l *Limiter[K]) policy(q *gcra.Quota) Policy {
	told := l.told.Load()
	if told != nil && told.quota == q {
		return told.policy
	}
	p := policyOf(q)
	if told == nil { // a key with its own Quota does not take its place
		l.told.CompareAndSwap(nil, &quotaPolicy{q, p})
	}
	return p
}

// bucketOwner owns the permits of Decide.
type bucketOwner[K comparable] struct{ *keyedtable.Buckets[K] }

func (o bucketOwner[K]) Use(g weir.Grant, n int) int { return o.Settle(g.Note, g.N, n) }

func (bucketOwner[K]) Release(weir.Grant, weir.Outcome) {}

// AllowAtMost reports how many of n events of the key may happen now, and counts these. It panics
// if n < 0.
func (l *Limiter[K]) AllowAtMost(key K, n int) int { return l.buckets.TakeAtMost(key, n) }

// Settle changes the cost of work of the key to n events; was is the number of events that
// were taken for it. If n is less, the difference is given back. If n is more, the
// difference is taken without a wait and may leave the bucket in debt, up to Config.MaxDebt;
// the rest is not charged. Settle returns the cost charged. It panics if either is negative.
func (l *Limiter[K]) Settle(key K, was, n int) int {
	return l.buckets.Settle(l.buckets.Fingerprint(key), was, n)
}

// SetQuota changes the Quota of all keys without one from SetQuotaFor. Tokens
// stay, but a full bucket stays full, even one that a smaller burst has made full.
// Calls that wait get another turn, and are refused if it would come too late or if they
// wait for more than the burst. SetQuota locks one shard after the other, each for well
// under a millisecond unless tens of thousands of calls wait for one key.
func (l *Limiter[K]) SetQuota(q gcra.Quota) {
	l.buckets.SetQuota(q)
	l.told.Store(nil)
}

// SetQuotaFor gives a key a Quota for it alone, as SetQuota does, or with nil the
// Quota of all again. Such keys are kept beside Config.Memory, at some 400 bytes
// each: they are for the operator to choose, not for the clients.
func (l *Limiter[K]) SetQuotaFor(key K, q *gcra.Quota) { l.buckets.SetQuotaFor(key, q) }

// For returns the limiter of one key. It may be kept, which saves an allocation.
func (l *Limiter[K]) For(key K) *Key[K] {
	k := &Key[K]{l: l, key: key}
	k.owner = (*owner[K])(k)
	return k
}

// A Key is the limiter of one key: a weir.Limiter, and one of package shape.
type Key[K comparable] struct {
	l     *Limiter[K]
	key   K
	owner weir.Owner // of its permits
}

// WaitN waits, behind the other calls for the same key, until n events of the key
// may happen, and counts them. If ctx ends first, the error is the context's own,
// and nothing is counted. Otherwise the error is a *weir.Rejection, at once, with
// the Reason
//
//   - OverBurst if n exceeds the burst,
//   - TooLate if its turn would come after the deadline of ctx,
//   - OverRate if its turn would come after Config.MaxWait, or if no call waits,
//   - QueueFull if as many calls wait as Config.Queue allows.
//
// It panics if n < 0.
func (k *Key[K]) WaitN(ctx context.Context, n int) error { return k.l.buckets.Wait(ctx, k.key, n) }

// Acquire waits as WaitN does. The Permit holds nothing in flight: releasing it
// does nothing, but Use settles a cost that differs from n.
func (k *Key[K]) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := k.WaitN(ctx, n); err != nil {
		return weir.Permit{}, err
	}
	held := n
	if q := k.l.buckets.QuotaFor(k.key); q == gcra.Unlimited() {
		held = 0 // nothing was taken
	}
	return weir.OwnedPermit(&k.owner, weir.Grant{N: held}), nil
}

// Burst returns the most events that can happen at once.
func (k *Key[K]) Burst() int {
	q := k.l.buckets.QuotaFor(k.key)
	return q.Burst()
}

// TokensAt returns how many tokens the key has at the time t, fractions included;
// less than zero if it is in debt, or taken ahead of time. If there is no limit,
// it is infinity.
func (k *Key[K]) TokensAt(t time.Time) float64 { return k.l.buckets.TokensAt(k.key, t) }

// owner keeps Use and Release, which a Permit calls, out of Key's methods.
type owner[K comparable] Key[K]

func (o *owner[K]) Use(g weir.Grant, n int) int { return o.l.Settle(o.key, g.N, n) }

func (o *owner[K]) Release(weir.Grant, weir.Outcome) {}

// state has the methods that a Limiter and Windows have in common.
type state[K comparable] struct {
	table interface {
		Top(n int) []topk.Count[K]
		Stats() keyedtable.Stats
		Snapshot(w io.Writer) error
		Restore(r io.Reader) error
	}
}

// Top returns the n keys most denied at the time of the call, since New or Restore,
// and how often each was denied, most first. It counts eight keys in each of its
// shards, which have up to 128 kB (in small budgets 4 kB, in large ones 256 kB). A
// key that has more than an eighth of its shard's denials is always found; a number
// may be too high by that much. The keys counted are kept: if keys are long, take a
// hash of them.
func (s *state[K]) Top(n int) iter.Seq2[K, uint64] {
	most := s.table.Top(n)
	return func(yield func(K, uint64) bool) {
		for _, d := range most {
			if !yield(d.Key, d.Count) {
				return
			}
		}
	}
}

// Stats is the state of a Limiter or of Windows, and their counts since New or
// Restore.
type Stats struct {
	Denied    uint64 // decisions against a key
	Forgotten uint64 // buckets forgotten in debt, or live counts, because memory was full
	Waiting   int    // calls that wait
	Memory    int    // bytes in use for buckets or counts, of Config.Memory
	Own       int    // keys with waiters, or a quota of their own
}

// Stats returns the state and the counts.
func (s *state[K]) Stats() Stats { return Stats(s.table.Stats()) }

// Snapshot writes the buckets or counts of all keys, for Restore in another process.
// The limiter stays in use meanwhile; the snapshot may or may not include decisions
// made during the call. No shard is locked for longer than it takes to copy a page, a
// few microseconds, and nothing is locked while w is written to. Snapshot takes 200 KiB
// of memory for any number of keys. It fails if Restore is called meanwhile. Only keys of
// types with a hash that does not depend on the process can be written. The snapshot
// holds no keys, but the seed of their fingerprints: with it, a reader can make keys
// collide.
func (s *state[K]) Snapshot(w io.Writer) error { return s.table.Snapshot(w) }

// Restore puts the buckets or counts of a Snapshot in place of the present ones,
// and counts denials from zero. The time since then counts: buckets are refilled
// by it, and windows go on and end. Tokens are kept, and refilled under the Quotas that
// the Limiter has now; call SetQuotaFor before Restore. If the Window was another,
// Restore does what SetWindow says. If there is more than fits in memory, buckets are
// forgotten as under a flood. If there is an error, nothing is changed. What was
// forgotten before the Snapshot is not in it: such a key has a full bucket again.
//
// Call Restore before the limiter is used: decisions during the call are lost, and the
// call takes memory for both states. It reads no further than the end of the snapshot.
func (s *state[K]) Restore(r io.Reader) error { return s.table.Restore(r) }
