package client

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// A fallback decides while the server is away.
type fallback interface {
	Take(n int) weir.Decision
	Acquire(ctx context.Context, n int) (weir.Permit, error)
}

// local returns the fallback of a key.
func (c *Client) local(key string) fallback {
	switch {
	case c.cfg.Away == Deny:
		return counted{c, nothing{c}}
	case c.cfg.Away == Allow:
		return counted{c, everything{}}
	}
	if l := c.learnt.find(key); l != nil {
		return counted{c, l}
	}
	if c.unlearnt != nil {
		return counted{c, ofKey{c.unlearnt.For(key), c.unlearnt, key}}
	}
	return counted{c, everything{}}
}

// counted counts the decisions of a fallback.
type counted struct {
	c   *Client
	own fallback
}

func (l counted) Take(n int) weir.Decision {
	d := l.own.Take(n)
	if n == 0 {
		d.OK = d.Remaining > 0
	}
	l.count(d.OK)
	return d
}

func (l counted) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	p, err := l.own.Acquire(ctx, n)
	l.count(err == nil)
	return p, err
}

func (l counted) count(ok bool) {
	if ok {
		l.c.counts.localAllowed.Add(1)
	} else {
		l.c.counts.localDenied.Add(1)
	}
}

// acquireLocally decides while the server is away. A call that began at the instant
// came and has already waited at the server waits only for the rest of MaxWait.
func (c *Client) acquireLocally(ctx context.Context, key string, n int, came time.Time) (weir.Permit, error) {
	wait, own := c.patience(ctx, came)
	if own {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(wait, time.Millisecond))
		defer cancel()
	}
	p, err := c.local(key).Acquire(ctx, n)
	if own && err == context.DeadlineExceeded { // the deadline is not the caller's
		err = weir.Reject(weir.OverRate, 0)
	}
	return p, impatient(err, own, weir.OverRate)
}

// everything allows every request.
type everything struct{}

func (everything) Take(int) weir.Decision { return weir.Decision{OK: true, Remaining: math.MaxInt} }

func (everything) Acquire(context.Context, int) (weir.Permit, error) { return weir.Permit{}, nil }

// nothing denies every request.
type nothing struct{ c *Client }

func (l nothing) Take(int) weir.Decision {
	return weir.Decision{RetryAfter: l.c.circuit.retryAfter(time.Now())}
}

func (l nothing) Acquire(context.Context, int) (weir.Permit, error) {
	return weir.Permit{}, weir.Reject(weir.Closed, l.c.circuit.retryAfter(time.Now()))
}

// ofKey is a keyed limiter for one key.
type ofKey struct {
	*keyed.Key[string]
	l   *keyed.Limiter[string]
	key string
}

func (l ofKey) Take(n int) weir.Decision { return l.l.Take(l.key, n) }

// Bounds on learning the limits of keys.
const (
	maxLearnt  = 1 << 14
	learnAgain = time.Minute
	learnEvery = 10 * time.Millisecond
)

// learnt are the limits of keys that the server has told.
type learnt struct {
	mu      sync.Mutex // guards what follows
	keys    map[string]*lesson
	next    time.Time // when to ask again
	studies bool
}

// A lesson is the Client's share of the limit of a key. It has no limiter if the
// key has no limit.
type lesson struct {
	at time.Time
	l  *rate.Limiter
}

// find returns the limiter of a key, nil if none is known.
func (t *learnt) find(key string) fallback {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.keys[key]; e != nil && e.l != nil {
		return e.l
	}
	return nil
}

// due returns a key of which the limit is unknown or stale, if it is time to ask.
func (t *learnt) due(now time.Time, asks []*ask) (key string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.studies || now.Before(t.next) {
		return "", false
	}
	for _, a := range asks {
		if e := t.keys[a.key]; e == nil || now.Sub(e.at) > learnAgain {
			t.studies = true
			return a.key, true
		}
	}
	return "", false
}

// done ends what due has begun.
func (t *learnt) done(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.studies, t.next = false, now.Add(learnEvery)
}

// put keeps the limit of a key, and drops any other key if there are too many.
func (t *learnt) put(now time.Time, key string, q gcra.Quota, limited bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.keys[key]
	if e == nil {
		for other := range t.keys {
			if len(t.keys) < maxLearnt {
				break
			}
			delete(t.keys, other)
		}
		e = new(lesson)
		t.keys[key] = e
	}
	e.at = now
	switch {
	case !limited:
		e.l = nil
	case e.l == nil || e.l.Quota() != q:
		e.l = rate.New(q, rate.Config{MaxWait: wait})
	}
}

// study asks for the limit of one of the keys that the server has just answered, if
// the limit is not known.
func (c *Client) study(asks []*ask) {
	if c.cfg.Away != Local {
		return
	}
	if key, ok := c.learnt.due(time.Now(), asks); ok {
		c.start(func() {
			c.queryLimit(key)
			c.learnt.done(time.Now())
		})
	}
}

// near returns nil if the server can be asked. If it is away, near sends a probe for
// the key if one is due.
func (c *Client) near(key string) error {
	switch {
	case c.ctx.Err() != nil:
		return errClosed
	case !c.circuit.open.Load():
		return nil
	}
	if n := c.circuit.probe(time.Now()); n > 0 {
		c.start(func() { c.probe(key, n) })
	}
	return errAway
}

// probe asks whether the server is back, with a batch, which no other server can
// answer. The first probe uses a new connection, because an open one may be dead;
// later ones use open connections, because making one may take longer than Timeout.
func (c *Client) probe(key string, n int) {
	if n == 1 {
		c.http.CloseIdleConnections()
	}
	_, _ = c.decide([]*ask{{key: key}})
	c.circuit.probed(time.Now())
}

// queryLimit asks for the limit of a key, and takes no token.
func (c *Client) queryLimit(key string) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	_ = c.exchange(ctx, &call{
		method: http.MethodGet, path: []string{"rate", segment(key)}, query: cost(0),
		learn: func(h http.Header, err error) { c.learn(key, h, err) },
	})
}

// learn keeps the limit of a key that an answer tells. Answers other than a grant or
// a denial tell none. A denial without a policy and without a wait means that no rule
// matches and the server denies such keys.
func (c *Client) learn(key string, h http.Header, err error) {
	denied, no := err.(*weir.Rejection)
	if c.cfg.Away != Local || err != nil && !no {
		return
	}
	q, limited := tightest(h.Values("RateLimit-Policy"), c.cfg.Share)
	if no && !limited && denied.Reason == weir.OverRate && denied.RetryAfter == 0 {
		limited = true
	}
	c.learnt.put(time.Now(), key, q, limited, c.cfg.MaxWait)
}

// tightest returns a share of the Quota that keeps to all policies of a
// RateLimit-Policy field: the lowest rate, and the least burst, but not less than
// one token unless it is none. ok is false if the field has no policy in requests,
// or is malformed. A policy without a window never refills.
func tightest(lines []string, share float64) (q gcra.Quota, ok bool) {
	perSecond, burst := math.Inf(1), math.Inf(1)
	for _, p := range ratelimitfield.ParsePolicies(lines) {
		if p.Unit != ratelimitfield.UnitRequests {
			continue
		}
		window := math.Inf(1)
		if p.Window > 0 {
			window = p.Window.Seconds()
		}
		perSecond, burst = min(perSecond, float64(p.Quota)/window), min(burst, float64(p.Quota))
	}
	switch {
	case math.IsInf(burst, 1):
		return gcra.Quota{}, false
	case burst == 0:
		return gcra.Quota{}, true
	}
	return gcra.PerSecond(perSecond*share, int(max(burst*share, 1))), true
}
