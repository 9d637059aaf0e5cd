package server_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// hop is the time that a request takes to the upstream and back.
const hop = 4 * time.Millisecond

// A wire is the way of a tier to its upstream.
type wire struct {
	decider.Decider
	cut   atomic.Bool // nothing is answered
	asked atomic.Int64
}

var errCut = errors.New("the wire is cut")

// pass takes the time of a request.
func (w *wire) pass(ctx context.Context) error {
	w.asked.Add(1)
	if w.cut.Load() {
		<-ctx.Done()
		return errCut
	}
	time.Sleep(hop)
	return nil
}

func (w *wire) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if err := w.pass(ctx); err != nil {
		return err
	}
	return w.Decider.Decide(ctx, req, v)
}

func (w *wire) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if w.cut.Load() { // a link notices that in time
		return errCut
	}
	if err := w.pass(ctx); err != nil {
		return err
	}
	return w.Decider.Wait(ctx, req, v)
}

func (w *wire) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	if err := w.pass(ctx); err != nil {
		return false, err
	}
	return w.Decider.Batch(ctx, reqs, all, verdicts)
}

func (w *wire) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	if err := w.pass(ctx); err != nil {
		return decider.Settlement{}, err
	}
	return w.Decider.Settle(ctx, key, id, n)
}

func (w *wire) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if err := w.pass(ctx); err != nil {
		return decider.Lease{}, err
	}
	return w.Decider.Acquire(ctx, req)
}

func (w *wire) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	if err := w.pass(ctx); err != nil {
		return decider.Lease{}, err
	}
	return w.Decider.Renew(ctx, key, id, ttl)
}

// An assigner takes the exchanges of a tier.
type assigner struct{ *wire }

func (a assigner) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	if err := a.pass(ctx); err != nil {
		return leaf.Answer{}, err
	}
	whole := decider.LeafExchange{Exchange: *x}
	var got decider.LeafAnswer
	if err := a.Decider.Exchange(ctx, &whole, &got); err != nil {
		return leaf.Answer{}, err
	}
	got.Resync = got.NeedsResync(&whole)
	return got.Answer, nil
}

// A zone is a tier with its wire.
type zone struct {
	*server.Tier
	t    *testing.T
	wire *wire

	mu    sync.Mutex      // guards what follows
	told  []error         // by OnAway
	spent []time.Duration // when tokens were given, since began
	began time.Time
	steps [decider.StepsCount]int
}

// newZone returns a tier of an upstream.
func newZone(t *testing.T, up decider.Decider, name string, rules *config.Rules, cfg server.TierConfig) *zone {
	t.Helper()
	z := &zone{t: t, wire: &wire{Decider: up}, began: time.Now()}
	cfg.Name, cfg.Upstream, cfg.Assigner = name, z.wire, assigner{z.wire}
	cfg.OnAway = func(err error) {
		z.mu.Lock()
		defer z.mu.Unlock()
		z.told = append(z.told, err)
	}
	var err error
	if z.Tier, err = server.NewTier(server.Config{Rules: rules, MaxLimit: 1000}, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		z.wire.cut.Store(false)
		_ = z.Disconnect(context.Background())
	})
	return z
}

// take asks for tokens, and records what was given.
func (z *zone) take(key string, n int) decider.Verdict {
	var v decider.Verdict
	if err := z.Decide(context.Background(), &decider.Request{Key: key, N: n}, &v); err != nil {
		z.t.Errorf("%q: %v", key, err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.steps[v.Step]++
	if v.OK {
		for range n {
			z.spent = append(z.spent, time.Since(z.began))
		}
	}
	return v
}

// load asks at a rate, a request every millisecond or more rarely, until stop is closed.
func (z *zone) load(key string, rate func() float64, stop <-chan struct{}, all *sync.WaitGroup) {
	all.Go(func() {
		const tick = time.Millisecond
		due := 0.0
		for {
			select {
			case <-stop:
				return
			case <-time.After(tick):
			}
			for due += rate() * tick.Seconds(); due >= 1; due-- {
				all.Go(func() { z.take(key, 1) })
			}
		}
	})
}

// given returns how many tokens were given in a span.
func (z *zone) given(from, to time.Duration) (n int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, at := range z.spent {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// most returns the most tokens that zones together gave in any window that begins at an instant
// or later.
func most(from, window time.Duration, zones ...*zone) (n int, at time.Duration) {
	var all []time.Duration
	for _, z := range zones {
		z.mu.Lock()
		all = append(all, z.spent...)
		z.mu.Unlock()
	}
	all = slices.DeleteFunc(all, func(at time.Duration) bool { return at < from })
	slices.Sort(all)
	first := 0
	for i := range all {
		for all[i]-all[first] >= window {
			first++
		}
		if i-first+1 > n {
			n, at = i-first+1, all[first]
		}
	}
	return n, at
}

func constant(rate float64) func() float64 { return func() float64 { return rate } }

// within reports whether a number is at most a part of another one away from it.
func within(got int, want, part float64) bool { return math.Abs(float64(got)-want) <= part*want }

func zoneName(i int) string { return fmt.Sprintf("zone-%d", i) }

func fleetRules(rate int) *config.Rules {
	return &config.Rules{Rules: []config.Rule{one("all", quota(rate, time.Second, ""))}}
}
