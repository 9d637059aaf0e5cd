// Package redis_rate has the API of github.com/go-redis/redis_rate/v10: rate limits that
// processes share over Redis or Valkey. To change over, change the import.
//
//	limiter := redis_rate.NewLimiter(rdb)
//	res, err := limiter.Allow(ctx, "project:123", redis_rate.PerSecond(10))
//	if err != nil {
//		return err
//	}
//	if res.Allowed == 0 { ... } // retry after res.RetryAfter
//
// # What differs
//
//   - Decisions are exact: time and tokens are counted in whole numbers. The original counts
//     seconds as floating-point numbers, and AllowAtMost takes fractions of events.
//   - A decision costs the server less; docs/redis.md has the figures.
//   - Keys begin with "weir:redis_rate:" instead of "rate:", because the state has another form.
//     While programs with both packages run, each counts on its own.
//   - A Limit without a Rate or a Period is an error that says so.
//
// As in the original, a call takes as long as the client lets it: set the client's timeouts, and
// ContextTimeoutEnabled for the deadlines of contexts. Package redislimit bounds the time of a
// call, and decides itself while the server is away.
package redis_rate

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
)

const prefix = "weir:redis_rate:"

var buckets = redis.NewScript(redisscript.Buckets)

// A scripter has the methods of a client that a Limiter calls.
type scripter interface {
	redis.Scripter
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// A Limit is a rate and a burst: Rate events in each Period, and up to Burst at once.
type Limit struct {
	Rate   int
	Burst  int
	Period time.Duration
}

// PerSecond returns the Limit of rate events a second, and as many at once.
func PerSecond(rate int) Limit { return Limit{Rate: rate, Burst: rate, Period: time.Second} }

// PerMinute returns the Limit of rate events a minute, and as many at once.
func PerMinute(rate int) Limit { return Limit{Rate: rate, Burst: rate, Period: time.Minute} }

// PerHour returns the Limit of rate events an hour, and as many at once.
func PerHour(rate int) Limit { return Limit{Rate: rate, Burst: rate, Period: time.Hour} }

// IsZero reports whether l is the zero Limit.
func (l Limit) IsZero() bool { return l == Limit{} }

// String describes the Limit, as in "10 req/s (burst 10)".
func (l Limit) String() string {
	period := l.Period.String()
	switch l.Period {
	case time.Second:
		period = "s"
	case time.Minute:
		period = "m"
	case time.Hour:
		period = "h"
	}
	return fmt.Sprintf("%d req/%s (burst %d)", l.Rate, period, l.Burst)
}

// A Result says whether events may happen.
type Result struct {
	Limit      Limit         // the Limit of the call
	Allowed    int           // events that may happen now; 0 if denied
	Remaining  int           // events that could happen at once after them; 0 if denied
	RetryAfter time.Duration // if denied, the time until the call would be allowed; else -1
	ResetAfter time.Duration // the time until the key is as if it had not been used
}

// A Limiter limits events by key. It is safe for concurrent use.
type Limiter struct {
	rdb scripter
}

// NewLimiter returns a Limiter over a client of go-redis: a *redis.Client, a
// *redis.ClusterClient, or a *redis.Ring.
func NewLimiter(rdb scripter) *Limiter { return &Limiter{rdb: rdb} }

// Allow is AllowN for one event.
func (l Limiter) Allow(ctx context.Context, key string, limit Limit) (*Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN allows n events of the key now, or none. With n = 0 it counts nothing, and tells
// what remains. If n exceeds the Burst, events are denied for ever, whatever RetryAfter says.
// The error is one of the client or the server, or of the Limit.
func (l Limiter) AllowN(ctx context.Context, key string, limit Limit, n int) (*Result, error) {
	return l.take(ctx, key, limit, redisscript.Take{N: n, Least: n, Most: -1})
}

// AllowAtMost allows as many events of the key now as there may be, up to n. If there may be
// none, RetryAfter is the time until there may be one.
func (l Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, n int) (*Result, error) {
	return l.take(ctx, key, limit, redisscript.Take{N: n, Least: 1, Most: -1})
}

// Reset forgets what the key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	return l.rdb.Del(ctx, prefix+key).Err()
}

func (l Limiter) take(ctx context.Context, key string, limit Limit, t redisscript.Take) (*Result, error) {
	if limit.Rate <= 0 || limit.Period <= 0 {
		return nil, fmt.Errorf("redis_rate: limit %v: Rate and Period must be above 0", limit)
	}
	q, err := redisscript.NewQuota(gcra.Per(limit.Rate, limit.Period, limit.Burst))
	if err != nil {
		return nil, fmt.Errorf("redis_rate: limit %v: %w", limit, err)
	}
	numbers, err := buckets.Run(ctx, l.rdb, []string{prefix + key}, q.Args(make([]any, 0, 6), &t)...).Int64Slice()
	if err != nil {
		return nil, err
	}
	reply, err := redisscript.ReadReply(numbers, &q)
	if err != nil {
		return nil, fmt.Errorf("redis_rate: %w", err)
	}
	d := reply.Decision(0, &q, &t)
	res := &Result{Limit: limit, Allowed: reply.Taken(0), Remaining: d.Remaining, RetryAfter: -1, ResetAfter: d.ResetAfter}
	if !reply.Granted || t.N == 0 && d.Remaining < t.Least {
		res.Remaining, res.RetryAfter = 0, reply.Until(0, &q, &t)
	}
	return res, nil
}
