// Package redislimit shares rate limits and concurrency limits among processes over Redis or
// Valkey.
//
//	lim, err := redislimit.New(rdb, gcra.Per(100, time.Minute, 20), redislimit.Config{Away: redislimit.Share, Instances: 4})
//	...
//	defer lim.Close()
//
//	d, err := lim.Take(ctx, "user:7", 1)              // without a wait
//	err = weir.Do(ctx, lim.For("user:7"), work)       // waits for its turn
//
// Each key has a token bucket in the server, decided as package gcra does, by the clock of the
// server. A decision is one call of one script. Calls that come while others are in flight go
// together in one pipeline.
//
// Leases, of NewLeases, are concurrency limits and locks.
//
// # When the server is away
//
// A call takes at most Config.Timeout in addition to its wait. If the server has not decided
// by then, or answers with an error, the Limiter decides itself, on the best Step that it has:
//
//	Exact   the server decides
//	Known   for Config.Known: what the server has told last, and the refill since
//	Shared  Config.Away is Share: the limit divided by Config.Instances
//	Chosen  Config.Away is Deny or Allow
//
// Decisions tell their Step, and Stats counts them. After three failures in a row the Limiter
// considers the server away, and decides without a delay; it sends a probe from time to time.
// When the server is back, the Limiter first charges what it allowed meanwhile, less what has
// been refilled since, so that no key gets its burst once more.
//
// New does not contact the server, so a program can start without it.
//
// # Clusters
//
// A call concerns one key, which may be in any slot. If a program uses hash tags for its own
// keys, the keys of a Limiter follow them, because Config.Prefix has no braces.
//
// # When not to use it
//
// A limit for a single process needs no server: package keyed decides in a thousandth of the
// time. Over weir serve, package client has queues in order of arrival, and rules that change
// without a restart.
package redislimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/keyed"
)

// A Decision is a weir.Decision with the Step of the ladder that it is based on.
type Decision struct {
	weir.Decision
	Step Step
}

// Degraded reports whether the server has not decided.
func (d Decision) Degraded() bool { return d.Step != Exact }

// A Limiter has a token bucket in the server for every key. Buckets are full at first. It is
// safe for concurrent use. It has goroutines only while it sends or waits for something.
type Limiter struct {
	link  *redislink.Link
	rdb   redis.UniversalClient
	epoch time.Time
	count counters
	cfg   Config
	quota redisscript.Quota
	told  keyed.Policy // what clients are told of quota
	burst int
	debt  int           // tokens
	most  time.Duration // the most that a bucket is ahead of time, beyond its burst

	share gcra.Quota // of this instance
	// local has the share of each key, and no more than the share of what the server has
	// told last.
	local *keyed.Limiter[string]
	owed  []owed // by lane
}

// New returns a Limiter that gives every key the Quota q, over any client of go-redis. The
// error names the field of cfg that makes no sense, or says what is wrong with q: a Quota
// without a limit or a refill cannot be shared. Close does not close the client.
//
// Let the client have the option ContextTimeoutEnabled, so that connections that do not answer
// are given up after Config.Timeout. Without it, they are in use for the client's ReadTimeout.
func New(rdb redis.UniversalClient, q gcra.Quota, cfg Config) (*Limiter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if rdb == nil {
		return nil, errors.New("redislimit: no client")
	}
	if strings.Contains(cfg.Prefix, "{") {
		return nil, errBrace(cfg.Prefix)
	}
	quota, err := redisscript.NewQuota(q)
	if err != nil {
		return nil, fmt.Errorf("redislimit: quota: %w", err)
	}
	l := &Limiter{
		cfg: cfg, rdb: rdb, epoch: time.Now(), quota: quota, told: keyed.PolicyOf(q), burst: q.Burst(),
		share: gcra.PerSecond(q.Rate()/float64(cfg.Instances), q.Burst()/cfg.Instances),
	}
	switch l.debt = cfg.MaxDebt; {
	case l.debt == 0:
		l.debt = l.burst
	case l.debt < 0:
		l.debt = 0
	}
	most := float64(max(l.debt, l.burst)) // backlog charges up to a burst
	l.most = max(cfg.MaxWait, time.Duration(min(most/q.Rate()*1e9, float64(longest)))) + time.Second
	if l.local, err = keyed.New[string](l.share, keyed.Config{}); err != nil {
		return nil, err
	}
	l.link = newLink(rdb, redislink.Config{Timeout: cfg.Timeout, Queue: cfg.Queue, OnAway: cfg.OnAway, Backlog: l.backlog})
	l.owed = make([]owed, l.link.Lanes())
	return l, nil
}

func errBrace(prefix string) error {
	return fmt.Errorf("redislimit: Prefix = %q: must not contain a brace, which would put all keys into one slot", prefix)
}

// Close rejects all further calls. The server has half a second for the calls that wait for it, and
// for tokens that were given back. Its error is nil.
func (l *Limiter) Close() error {
	l.link.Close()
	return nil
}

// Allow reports whether an event of the key may happen now, and counts it if so. An error
// denies.
func (l *Limiter) Allow(ctx context.Context, key string) bool {
	d, err := l.Take(ctx, key, 1)
	return err == nil && d.OK
}

// Take takes n tokens of a key if they are available, without a wait. With n = 0 it takes none,
// and is denied only in debt. RetryAfter is weir.Never if n exceeds the burst.
//
// If the server does not decide in time, the Limiter does: see Decision.Step. The error is the
// error of ctx if that ended first, a *weir.Rejection, weir.Closed, after Close, or says that
// the key in the server has a value of another type. Take panics if n < 0.
func (l *Limiter) Take(ctx context.Context, key string, n int) (Decision, error) {
	d, _, err := l.take(ctx, key, n, false)
	return d, err
}

// take is Take. It also returns the instant by the server's clock, if that has decided. Tokens that
// may be settled are remembered there.
func (l *Limiter) take(ctx context.Context, key string, n int, settled bool) (Decision, time.Duration, error) {
	check(n)
	take := redisscript.Take{N: n, Least: n, Most: l.most, Settled: settled}
	reply, err := l.ask(ctx, key, &take)
	switch {
	case err == redislink.ErrAway:
		return l.decide(key, n), 0, nil
	case err != nil:
		return Decision{}, 0, err
	}
	d := reply.Decision(0, &l.quota, &take)
	l.learn(key, d.Remaining)
	return Decision{Decision: d}, reply.Time, nil
}

// Decide is Take with the Policy of the Quota, and with a Permit by which the cost is settled in
// the background. It makes the Limiter a keyed.Decider, for rules of httplimit and grpclimit. The
// Policy is unknown if Config.Away has decided.
func (l *Limiter) Decide(ctx context.Context, key string, n int) (keyed.Verdict, error) {
	d, at, err := l.take(ctx, key, n, true)
	if err != nil {
		return keyed.Verdict{}, err
	}
	policy := l.told
	if d.Step == Chosen {
		policy = keyed.Policy{}
	}
	if !d.OK || n == 0 {
		return keyed.Verdict{Decision: d.Decision, Policy: policy}, nil
	}
	k := &keyLimiter{l: l, key: key}
	k.owner = k
	return keyed.Verdict{Decision: d.Decision, Policy: policy, Permit: k.permit(n, d.Step, at)}, nil
}

func check(n int) {
	if n < 0 {
		panic("redislimit: negative cost")
	}
}

// Reset forgets what a key has used, in the server and here. The error is the client's.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	l.owed[l.link.Lane(key).Index].forget(key)
	return l.rdb.Del(ctx, l.cfg.Prefix+key).Err()
}

// ask runs the script for one key.
func (l *Limiter) ask(ctx context.Context, key string, take *redisscript.Take) (redisscript.Reply, error) {
	c := l.call(key, take)
	if take.N > 0 {
		c.Undo = func(numbers []int64) {
			if reply, err := redisscript.ReadReply(numbers, &l.quota); err == nil && reply.Granted {
				l.giveBack(key, take.N, 0, reply.Time)
			}
		}
	}
	numbers, err := l.link.Lane(key).Ask(ctx, c)
	if err != nil {
		return redisscript.Reply{}, err
	}
	l.count.steps[Exact].Add(1)
	return redisscript.ReadReply(numbers, &l.quota)
}

// call returns the call of the script for one key.
func (l *Limiter) call(key string, take *redisscript.Take) *redislink.Call {
	return &redislink.Call{
		Script: buckets, Keys: []string{l.cfg.Prefix + key}, Args: l.quota.Args(make([]any, 0, 6), take),
		Look: func() []any { return l.quota.Args(nil, &redisscript.Take{Most: l.most}) },
	}
}

// giveBack returns all but n of the tokens that were taken, at an instant of the server's clock, from
// the bucket there.
func (l *Limiter) giveBack(key string, was, n int, at time.Duration) {
	l.tell(key, &redisscript.Take{N: n - was, Taken: at, Remain: n, Most: l.most})
}

// tell runs the script for a key, without a caller.
func (l *Limiter) tell(key string, take *redisscript.Take) {
	c := l.call(key, take)
	c.Then = func(a redislink.Answer) {
		if a.Err != nil {
			l.count.dropped.Add(1)
		}
	}
	l.link.Lane(key).Send(c)
}

// Stats are the state of a Limiter, and its counts since New.
type Stats struct {
	Away    bool // the server is considered away; of a Cluster, at least one master
	Waiting int  // calls of Acquire that wait for their turn

	Decisions [steps]uint64 // by Step
	Pipelines uint64        // that were sent
	Failures  uint64        // pipelines without an answer, or with errors only
	Late      uint64        // calls without an answer within Timeout
	// Dropped counts costs that could not be reported to the server. Their tokens return with
	// time.
	Dropped uint64
}

type counters struct {
	steps   [steps]atomic.Uint64
	dropped atomic.Uint64
	waiting atomic.Int64
}

// Stats returns the state and the counts. They are read one after the other.
func (l *Limiter) Stats() Stats { return l.count.stats(l.link) }

func (c *counters) stats(l *redislink.Link) Stats {
	sent := l.Stats()
	s := Stats{
		Away: sent.Away, Pipelines: sent.Pipelines, Failures: sent.Failures, Late: sent.Late,
		Waiting: int(c.waiting.Load()), Dropped: c.dropped.Load(),
	}
	for i := range s.Decisions {
		s.Decisions[i] = c.steps[i].Load()
	}
	return s
}

var (
	buckets = redislink.NewScript(redisscript.Buckets)
	leases  = redislink.NewScript(redisscript.Leases)
)

// newLink returns a Link over a client.
func newLink(rdb redis.UniversalClient, cfg redislink.Config) *redislink.Link {
	cfg.Send = func(ctx context.Context, calls []*redislink.Call, source bool) []redislink.Answer {
		return redislink.Send(ctx, rdb.Pipeline(), calls, source)
	}
	if c, ok := rdb.(*redis.ClusterClient); ok {
		cfg.Cluster, cfg.Reload = true, c.ReloadState
	}
	return redislink.New(cfg)
}
