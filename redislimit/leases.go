package redislimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/keyed"
)

// ErrLost is the cause of the context of a Held that has lost its lease: the lease expired
// before it was renewed, or the server no longer knew it. Another caller may hold it now.
var ErrLost = errors.New("redislimit: the lease is lost")

// MaxUnits bounds the units of one lease.
const MaxUnits = 1000

// LeaseConfig configures NewLeases. Away and Instances are required.
type LeaseConfig struct {
	// Prefix begins every key in the server. Leases with the same Prefix share their units.
	// If empty, "weir:lease:".
	Prefix string
	// TTL is how long a lease lasts after its last renewal. It is renewed after a third of
	// this. If zero, 10 seconds; at least 100 ms.
	TTL time.Duration
	// Timeout bounds the time until the server's decision, in addition to a wait. If zero,
	// DefaultTimeout.
	Timeout time.Duration
	// MaxWait bounds the wait for units, even if the context allows more. If zero, 30
	// seconds; if negative, no call waits.
	MaxWait time.Duration
	// Queue bounds the calls that are about to be sent, as in Config. If zero, 10,000.
	Queue int

	// Away selects how Acquire decides while the server does not. There is no default.
	// Share allows this instance the limit divided by Instances, rounded down, less what it
	// holds. Hold is always denied.
	Away Away
	// Instances is the greatest number of Leases that share the limit at the same time: at
	// least 1.
	Instances int
	// OnAway is told as in Config.
	OnAway func(err error)
}

func (c LeaseConfig) withDefaults() (LeaseConfig, error) {
	if c.TTL != 0 && (c.TTL < 100*time.Millisecond || c.TTL > longest) {
		return c, fmt.Errorf("redislimit: TTL = %v: must be from 100ms to %v", c.TTL, longest)
	}
	common, err := Config{
		Prefix: cmp.Or(c.Prefix, "weir:lease:"), Timeout: c.Timeout, MaxWait: c.MaxWait, Queue: c.Queue,
		Away: c.Away, Instances: c.Instances, OnAway: c.OnAway,
	}.withDefaults()
	c.Prefix, c.Timeout, c.MaxWait, c.Queue, c.OnAway = common.Prefix, common.Timeout, common.MaxWait, common.Queue, common.OnAway
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	return c, err
}

// Leases are concurrency limits that processes share: every key has a number of units, which
// callers hold while they work. Leases renews what is held, in the background. What a process
// that died has held is free again after LeaseConfig.TTL, by the clock of the server. Leases
// are safe for concurrent use.
type Leases struct {
	link  *redislink.Link
	count counters
	cfg   LeaseConfig
	limit int
	lost  atomic.Uint64

	heldMu sync.Mutex // guards what follows
	held   map[*lease]struct{}
	units  map[string]int // held, by key
}

// NewLeases returns Leases of a number of units for every key. The error names the field of
// cfg that makes no sense. It does not contact the server. As for New, let the client have the
// option ContextTimeoutEnabled.
func NewLeases(rdb redis.UniversalClient, limit int, cfg LeaseConfig) (*Leases, error) {
	cfg, err := cfg.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case limit < 1:
		return nil, fmt.Errorf("redislimit: a limit of %d: must be at least 1", limit)
	case strings.Contains(cfg.Prefix, "{"):
		return nil, errBrace(cfg.Prefix)
	}
	l := &Leases{
		cfg: cfg, limit: limit,
		held: map[*lease]struct{}{}, units: map[string]int{},
	}
	l.link = newLink(rdb, redislink.Config{Timeout: cfg.Timeout, Queue: cfg.Queue, OnAway: cfg.OnAway})
	return l, nil
}

// For returns the concurrency limiter of a key. Its Acquire leases n units, and waits for
// them until LeaseConfig.MaxWait or the deadline of its context: it asks again from time to
// time. Callers are granted leases in the order of their arrival at the server, over all
// programs. Release gives them back; Use does nothing.
//
// Acquire returns the errors of a weir.Limiter: OverLimit if n exceeds the limit or MaxUnits, or if
// MaxWait is over; QueueFull if 1,000 callers wait for the key; TooLate if the deadline would be; Closed, if the server is away and
// LeaseConfig.Away denies. If the server forgets a lease, because it was flushed or away for
// longer than the TTL, the next renewal counts it again, even above the limit, because the work
// goes on: use Hold for work that must not. Acquire panics if n < 0; for n = 0 it does nothing.
func (l *Leases) For(key string) weir.Limiter { return leaseLimiter{l, key} }

type leaseLimiter struct {
	l   *Leases
	key string
}

func (k leaseLimiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	return k.acquire(ctx, n, k.l.cfg.MaxWait)
}

// acquire is Acquire with a longest wait.
func (k leaseLimiter) acquire(ctx context.Context, n int, most time.Duration) (weir.Permit, error) {
	check(n)
	if n == 0 {
		return weir.Permit{}, ctx.Err()
	}
	h, err := k.l.acquire(ctx, k.key, n, most, redisscript.ForceLease, func(error) {})
	if err == redislink.ErrAway {
		h, err = k.l.acquireLocally(k.key, n)
	}
	if err != nil {
		return weir.Permit{}, err
	}
	return weir.OwnedPermit(&h.owner, weir.Grant{N: n}), nil
}

// Decide is Acquire of For(key) without a wait. It makes Leases a keyed.Decider: a concurrency
// limit of each client, of all instances together, for rules of httplimit and grpclimit. Each
// request is a call of the server. What is left of the limit is not known, so clients are not told
// about it. A denial is an error: a *weir.Rejection of those of Acquire. Decide panics if n < 0.
func (l *Leases) Decide(ctx context.Context, key string, n int) (keyed.Verdict, error) {
	p, err := leaseLimiter{l, key}.acquire(ctx, n, 0)
	if err != nil {
		return keyed.Verdict{}, err
	}
	return keyed.Verdict{Decision: weir.Decision{OK: true}, Permit: p.Move()}, nil
}

// A Held is a lease that tells its holder when it is lost.
type Held struct {
	// Context is for the work. It is a child of the context of Hold. It ends with Release and,
	// with the cause ErrLost, when the lease is lost.
	context.Context
	// Permit gives the lease back with its Release.
	weir.Permit
	// Token is the fencing token. It grows with each lease that the server grants for the key,
	// unless the server's clock is set back while the key is not in use. A resource can refuse a
	// token that is lower than one it has seen.
	Token uint64
}

// Hold leases n units of a key, as For does, for work that must stop before another caller
// gets the units: a lock, if the limit is 1. Only the server can grant that. While it is away,
// the error is a *weir.Rejection, weir.Closed. Hold panics if n < 1.
func (l *Leases) Hold(ctx context.Context, key string, n int) (*Held, error) {
	if n < 1 {
		panic("redislimit: Hold of no units")
	}
	holding, cancel := context.WithCancelCause(ctx)
	h, err := l.acquire(ctx, key, n, l.cfg.MaxWait, redisscript.KeepLease, cancel)
	if err != nil {
		if err == redislink.ErrAway {
			err = weir.Reject(weir.Closed, l.link.Lane(key).RetryAfter())
		}
		cancel(err)
		return nil, err
	}
	return &Held{holding, weir.OwnedPermit(&h.owner, weir.Grant{N: n}), h.token}, nil
}

// keep has a lease renewed that lasts from an instant.
func (l *Leases) keep(h *lease, from time.Time) {
	l.heldMu.Lock()
	defer l.heldMu.Unlock()
	h.expires = from.Add(h.TTL)
	l.held[h] = struct{}{}
	l.units[h.key] += h.N
	h.timer = time.AfterFunc(time.Until(from.Add(h.TTL/3)), func() { l.link.Run(h.renew) })
}

// drop ends the renewals of a lease, and reports whether it was held.
func (l *Leases) drop(h *lease) bool {
	l.heldMu.Lock()
	defer l.heldMu.Unlock()
	if _, held := l.held[h]; !held {
		return false
	}
	delete(l.held, h)
	if l.units[h.key] -= h.N; l.units[h.key] == 0 {
		delete(l.units, h.key)
	}
	h.timer.Stop()
	return true
}

// Close gives back all leases, for at most a second, and ends the contexts of all Held. It
// rejects further calls. Permits may be released after it, without effect. Its error is nil.
func (l *Leases) Close() error {
	l.heldMu.Lock()
	calls := make(map[*redislink.Lane][]*redislink.Call)
	for h := range l.held {
		h.cancel(redislink.ErrClosed)
		lane := l.link.Lane(h.key)
		calls[lane] = append(calls[lane], h.give())
	}
	held := l.held
	l.held, l.units = map[*lease]struct{}{}, map[string]int{}
	l.heldMu.Unlock()
	for h := range held {
		h.timer.Stop()
	}
	var given sync.WaitGroup
	for lane, calls := range calls {
		if !lane.Away() {
			given.Go(func() { _ = lane.Exchange(calls) })
		}
	}
	done := make(chan struct{})
	go func() { given.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	l.link.Close()
	return nil
}

// LeaseStats are the state of Leases, and their counts since NewLeases.
type LeaseStats struct {
	Stats
	Held int    // leases
	Lost uint64 // leases of Hold that have ended before they were released
}

// Stats returns the state and the counts. They are read one after the other.
func (l *Leases) Stats() LeaseStats {
	l.heldMu.Lock()
	held := len(l.held)
	l.heldMu.Unlock()
	return LeaseStats{Stats: l.count.stats(l.link), Held: held, Lost: l.lost.Load()}
}
