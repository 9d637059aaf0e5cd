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
)

// near returns nil if the server can be asked. If it is away, near sends a probe for
// the key if one is due.
func (c *Client) near(ctx context.Context, key string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
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
	_, _ = c.decide([]*ask{{Key: key}})
	c.circuit.probed(time.Now())
}

// rejectAway returns the rejection of a request that only the server can decide.
func (c *Client) rejectAway() error {
	return weir.Reject(weir.Closed, c.circuit.retryAfter(time.Now()))
}

// takeLocally decides while the server is away.
func (c *Client) takeLocally(key string, n int) weir.Decision {
	if c.cfg.Away == Deny {
		c.countLocal(false)
		return weir.Decision{RetryAfter: c.circuit.retryAfter(time.Now())}
	}
	d := c.learnt.limits.Take(key, n)
	if n == 0 {
		d.OK = d.Remaining > 0
	}
	c.countLocal(d.OK)
	return d
}

// acquireLocally decides while the server is away. A call that began at the instant
// came and has already waited at the server waits only for the rest of MaxWait.
func (c *Client) acquireLocally(ctx context.Context, key string, n int, came time.Time) (weir.Permit, error) {
	if c.cfg.Away == Deny {
		c.countLocal(false)
		return weir.Permit{}, c.rejectAway()
	}
	wait, own := c.patience(ctx, came)
	within, stop := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer stop()
	p, err := c.learnt.limits.For(key).Acquire(within, n)
	if own && err == context.DeadlineExceeded { // the deadline is not the caller's
		err = weir.Reject(weir.OverRate, 0)
	}
	c.countLocal(err == nil)
	return p, impatient(err, own, weir.OverRate)
}

// countLocal counts a decision that the Client made itself.
func (c *Client) countLocal(ok bool) {
	if ok {
		c.counts.localAllowed.Add(1)
	} else {
		c.counts.localDenied.Add(1)
	}
}

// The limit of a key is asked for again after learnAgain, and the next limit of any
// key after learnEvery.
const (
	learnAgain = time.Minute
	learnEvery = 10 * time.Millisecond
)

// learnt are the limits of keys that the server has told.
type learnt struct {
	limits *keyed.Limiter[string] // the Client's share of them; for other keys, LocalQuota

	mu   sync.Mutex         // guards what follows
	at   bounded[time.Time] // when the limit of a key was told
	next time.Time          // when to ask again
}

// study asks for the limit of one of the keys that the server has just answered, if
// the limit is not known.
func (c *Client) study(asks []*ask) {
	if c.cfg.Away != Local {
		return
	}
	if key, ok := c.learnt.due(time.Now(), asks); ok {
		c.start(func() { c.queryLimit(key) })
	}
}

// due returns a key of which the limit is unknown or stale, if it is time to ask. The
// caller must ask.
func (t *learnt) due(now time.Time, asks []*ask) (key string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		return "", false
	}
	for _, a := range asks {
		if now.Sub(t.at[a.Key]) > learnAgain {
			t.next = now.Add(longest) // until queryLimit ends
			return a.Key, true
		}
	}
	return "", false
}

// queryLimit asks for the limit of a key, and takes no token.
func (c *Client) queryLimit(key string) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	r, err := c.exchange(ctx, &call{method: http.MethodGet, path: target("rate", key) + cost(0)})
	t := &c.learnt
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.next = now.Add(learnEvery)
	denied, no := err.(*weir.Rejection)
	if err != nil && !no { // it tells no limit
		return
	}
	q, limited := tightest(r.policy, c.cfg.Share)
	switch {
	case limited, no && denied.Reason == weir.OverRate && denied.RetryAfter == 0: // no rule matches, and the server denies such keys
		t.put(now, key, &q)
	default:
		t.put(now, key, nil)
	}
}

// put keeps the limit of a key, nil if it has none, and drops any other key if there
// are too many.
func (t *learnt) put(now time.Time, key string, q *gcra.Quota) {
	if dropped := t.at.put(key, now); dropped != "" {
		t.limits.SetQuotaFor(dropped, nil)
	}
	t.limits.SetQuotaFor(key, q)
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
