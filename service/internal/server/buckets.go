package server

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/config"
)

// buckets count for one rule what each key has had.
type buckets interface {
	// number returns that of a key's bucket, the same until it is restored.
	number(key string) uint64
	// take takes n tokens at a time that is not long ago, or says why not. A limit
	// > 0 counts instead of the rule's, for this call.
	take(key string, number uint64, at time.Time, n, limit int) weir.Decision
	// settle charges n tokens instead of the was that were taken at that time; it
	// returns what is charged.
	settle(key string, at time.Time, was, n int) int
	// ahead returns how long it takes until n tokens more are there, if nobody else
	// comes: n may exceed what a bucket holds. weir.Never if it is in vain. A limit >
	// 0 counts instead of the rule's.
	ahead(key string, n, limit int) time.Duration
	// used returns how many tokens are lacking of a full bucket; more than it holds
	// if it is in debt.
	used(key string) int
	// set changes the quota, which is counted in the same way.
	set(q config.Quota)
	// memory returns the bytes in use, and the keys that were forgotten too early.
	memory() (bytes int, forgotten uint64)
}

// newBuckets returns the buckets of a rule: of every key, or the one of all.
func newBuckets(q config.Quota, per config.Per, memory int) (buckets, error) {
	switch {
	case q.Algorithm == config.Fixed || q.Algorithm == config.Sliding:
		l, err := keyedtable.NewWindows[string](windows(q), keyedtable.Config{Memory: memory, MaxDebt: math.MaxInt32, NoTop: true})
		return &counted{l: l}, err
	case per == config.PerRule:
		return single{rate.New(bucket(q), rate.Config{MaxDebt: math.MaxInt32})}, nil
	default:
		l, err := keyedtable.NewBuckets[string](bucket(q), keyedtable.Config{Memory: memory, MaxDebt: math.MaxInt32, NoTop: true})
		return many{l}, err
	}
}

// alike reports whether two quotas are counted in the same way, so that the
// counts of the one serve under the other.
func alike(a, b config.Quota) bool {
	gcra := func(q config.Quota) bool { return q.Algorithm != config.Fixed && q.Algorithm != config.Sliding }
	return a.Algorithm == b.Algorithm || gcra(a) && gcra(b)
}

func bucket(q config.Quota) gcra.Quota { return gcra.Per(q.Rate.Count, q.Rate.Period, burst(q)) }

func windows(q config.Quota) keyedtable.Window {
	return keyedtable.Window{Limit: q.Rate.Count, Period: q.Rate.Period, Sliding: q.Algorithm == config.Sliding}
}

// burst returns the most that can be had at once.
func burst(q config.Quota) int {
	if q.Burst > 0 && alike(q, config.Quota{}) {
		return q.Burst
	}
	return q.Rate.Count
}

// many are token buckets.
type many struct{ l *keyedtable.Buckets[string] }

func (m many) number(key string) uint64 { return m.l.Fingerprint(key) }

func (m many) take(key string, number uint64, at time.Time, n, limit int) weir.Decision {
	d := m.l.TakeAt(number, at, n)
	if limit <= 0 {
		return d
	}
	q := m.l.QuotaFor(key)
	return tighter(d, q, n, limit, func() { m.l.Settle(m.l.Fingerprint(key), n, 0) }, func() float64 { return m.l.TokensAt(key, at) })
}

func (m many) settle(key string, _ time.Time, was, n int) int {
	return m.l.Settle(m.l.Fingerprint(key), was, n)
}

func (m many) ahead(key string, n, limit int) time.Duration {
	q := m.l.QuotaFor(key)
	return missing(q, m.l.TokensAt(key, time.Now()), n+reserve(q, limit))
}

func (m many) used(key string) int {
	return lacking(m.l.QuotaFor(key), m.l.TokensAt(key, time.Now()))
}

func (m many) set(q config.Quota) { m.l.SetQuota(bucket(q)) }

func (m many) memory() (int, uint64) {
	st := m.l.Stats()
	return st.Memory, st.Forgotten
}

// single is one token bucket for all keys.
type single struct{ l *rate.Limiter }

func (o single) number(string) uint64 { return 0 }

func (o single) take(_ string, _ uint64, at time.Time, n, limit int) weir.Decision {
	d := o.l.TakeAt(at, n)
	if limit <= 0 {
		return d
	}
	return tighter(d, o.l.Quota(), n, limit, func() { o.l.Settle(n, 0) }, func() float64 { return o.l.TokensAt(at) })
}

func (o single) settle(_ string, _ time.Time, was, n int) int {
	return o.l.Settle(was, n)
}

func (o single) ahead(_ string, n, limit int) time.Duration {
	q := o.l.Quota()
	return missing(q, o.l.Tokens(), n+reserve(q, limit))
}

func (o single) used(string) int { return lacking(o.l.Quota(), o.l.Tokens()) }

func (o single) set(q config.Quota)    { o.l.SetQuota(bucket(q)) }
func (o single) memory() (int, uint64) { return 0, 0 }

// reserve returns how much of a bucket a caller with a limit of its own leaves to
// others, so that no more than the limit are used. A limit above the burst, or
// none, is the burst.
func reserve(q gcra.Quota, limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(q.Burst()-limit, 0)
}

// tighter judges the decision d for n tokens under a limit of the caller's own.
// What is taken beyond it is undone; tokens is how many there are then.
func tighter(d weir.Decision, q gcra.Quota, n, limit int, undo func(), tokens func() float64) weir.Decision {
	leave := reserve(q, limit)
	enough := d.OK && d.Remaining >= leave || n == 0
	d.Remaining -= min(leave, d.Remaining)
	if enough {
		return d
	}
	if d.OK {
		undo()
	}
	d.OK = false
	if d.RetryAfter = weir.Never; n <= min(limit, q.Burst()) {
		d.RetryAfter = missing(q, tokens(), n+leave)
	}
	return d
}

// missing returns how long it takes until a bucket that holds so many tokens
// has had n.
func missing(q gcra.Quota, tokens float64, n int) time.Duration {
	lack := float64(n) - tokens
	switch {
	case lack <= 0:
		return 0
	case q.Rate() <= 0:
		return weir.Never
	}
	return seconds(lack / q.Rate())
}

// lacking returns how many tokens a bucket lacks that holds so many.
func lacking(q gcra.Quota, tokens float64) int {
	if q.Unlimited() {
		return 0
	}
	return q.Burst() - int(math.Floor(tokens))
}

// seconds is a number of seconds as a Duration; weir.Never if it is too long.
func seconds(s float64) time.Duration {
	if ns := math.Ceil(s * 1e9); ns < math.MaxInt64 {
		return time.Duration(ns)
	}
	return weir.Never
}

// counted are windows, of every key or one of all. Rules that are made of others
// have them in common with those of the same windows: then the limit is their own.
type counted struct {
	l     *keyedtable.Windows[string]
	limit atomic.Int64 // 0: that of l
}

func (c *counted) within(limit int) int {
	if limit > 0 {
		return limit
	}
	return int(c.limit.Load())
}

func (c *counted) number(key string) uint64 { return c.l.Fingerprint(key) }

func (c *counted) take(_ string, number uint64, at time.Time, n, limit int) weir.Decision {
	return c.l.TakeAt(number, at, n, c.within(limit))
}

func (c *counted) settle(key string, at time.Time, was, n int) int {
	return c.l.SettleAt(key, at, was, n)
}

func (c *counted) ahead(key string, n, limit int) time.Duration {
	return c.l.Ahead(key, n, c.within(limit))
}

func (c *counted) used(key string) int {
	n, _ := c.l.Used(key)
	return n
}

func (c *counted) set(q config.Quota) {
	if c.limit.Load() > 0 {
		c.limit.Store(int64(q.Rate.Count))
		return
	}
	c.l.SetWindow(windows(q))
}

func (c *counted) memory() (int, uint64) {
	st := c.l.Stats()
	return st.Memory, st.Forgotten
}

// A pool has the windows that rules made of others have in common: those of one
// length are one table, for a key is under one of the rules.
type pool struct {
	mu sync.Mutex // guards of
	of map[keyedtable.Window]*keyedtable.Windows[string]
}

// kind is what windows have in common that are one table.
func kind(q config.Quota) keyedtable.Window {
	w := windows(q)
	w.Limit = 0
	return w
}

// under returns a pool of the tables that other rules can go on with.
func (p *pool) under(cfg *config.Rules) *pool {
	next := &pool{of: map[keyedtable.Window]*keyedtable.Windows[string]{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cfg.Rules {
		k := kind(config.Quota{Rate: cfg.Rules[i].Rate, Algorithm: cfg.Rules[0].Algorithm})
		if l := p.of[k]; l != nil {
			next.of[k] = l
		}
	}
	return next
}

// repeated reports whether the table of a rule has been seen before, as another's.
func repeated(b buckets, seen map[*keyedtable.Windows[string]]bool) bool {
	c, ok := b.(*counted)
	if !ok {
		return false
	}
	was := seen[c.l]
	seen[c.l] = true
	return was
}

// has reports whether a pool is for such a quota.
func (p *pool) has(q config.Quota) bool { return !alike(q, config.Quota{}) && q.Rate.Count > 0 }

// buckets returns those of a rule; nil if a pool is not for such.
func (p *pool) buckets(q config.Quota, memory int) (buckets, error) {
	if !p.has(q) {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := kind(q)
	l := p.of[k]
	if l == nil {
		var err error
		if l, err = keyedtable.NewWindows[string](k, keyedtable.Config{Memory: memory, MaxDebt: math.MaxInt32, NoTop: true}); err != nil {
			return nil, err
		}
		p.of[k] = l
	}
	c := &counted{l: l}
	c.limit.Store(int64(q.Rate.Count))
	return c, nil
}
