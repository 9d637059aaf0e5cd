package redislimit

import (
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
)

// step returns the best step on which a key can be decided while the server is away.
func (l *Limiter) step(key string) Step {
	switch {
	case l.link.Lane(key).Known(l.cfg.Known):
		return Known
	case l.cfg.Away == Share:
		return Shared
	}
	return Chosen
}

// decide decides about n tokens of a key without the server.
func (l *Limiter) decide(key string, n int) Decision {
	d := Decision{Step: l.step(key)}
	l.count.steps[d.Step].Add(1)
	switch {
	case d.Step != Chosen:
		d.Decision = l.local.Take(key, n)
		if d.RetryAfter == weir.Never { // here; the server may grant it
			d.RetryAfter = l.retryAfter(key)
		}
	case l.cfg.Away == Allow:
		d.OK = true
		l.local.Take(key, n)
	default:
		d.RetryAfter = l.retryAfter(key)
	}
	if d.OK && n > 0 {
		l.owe(key, n)
	}
	return d
}

// retryAfter returns the time until the server is asked again.
func (l *Limiter) retryAfter(key string) time.Duration {
	return l.link.Lane(key).RetryAfter()
}

// learn keeps the local bucket of a key at the share of what the server has left.
func (l *Limiter) learn(key string, remaining int) {
	share := min(remaining/l.cfg.Instances, l.share.Burst())
	if has := l.local.Take(key, 0).Remaining; has > share {
		l.local.Take(key, has-share)
	}
}

// maxOwed bounds the keys of a lane of which is known what was allowed while the server was
// away.
const maxOwed = 1 << 14

// owed holds what this instance has allowed in place of the server, as one bucket of its share
// for each key: what has been refilled since is not owed any more.
type owed struct {
	mu      sync.Mutex // guards what follows
	buckets map[string]gcra.Bucket
}

// owe counts tokens that were allowed in place of the server; a negative number of them was given
// back.
func (l *Limiter) owe(key string, n int) {
	o := &l.owed[l.link.Lane(key).Index]
	now := time.Since(l.epoch)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buckets == nil {
		o.buckets = map[string]gcra.Bucket{}
	}
	b, known := o.buckets[key]
	if n < 0 {
		if known {
			o.buckets[key] = l.share.Refund(b, -n)
		}
		return
	}
	if !known && len(o.buckets) >= maxOwed {
		l.count.dropped.Add(1)
		return
	}
	o.buckets[key], _ = l.share.Charge(b, now, n, 0)
}

// forget forgets what is owed for a key.
func (o *owed) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.buckets, key)
}

// backlog returns the calls that charge the server for what is owed, at most redislink.MaxBatch. A
// charge may leave the bucket in debt, if other instances have used it meanwhile.
func (l *Limiter) backlog(lane int) (calls []*redislink.Call) {
	o := &l.owed[lane]
	now := time.Since(l.epoch)
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, b := range o.buckets {
		if len(calls) == redislink.MaxBatch {
			break
		}
		delete(o.buckets, key)
		_, d := l.share.Take(b, now, 0)
		missing := l.share.Burst() - d.Remaining
		if missing == 0 {
			continue
		}
		c := l.call(key, &redisscript.Take{N: missing, Debt: l.burst, Most: l.most})
		c.Then = func(a redislink.Answer) {
			if a.Err == redislink.ErrAway { // else the key has a value of another type
				l.owe(key, missing)
			}
		}
		calls = append(calls, c)
	}
	return calls
}
