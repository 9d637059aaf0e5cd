package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// quota is n tokens in a period.
func quota(n int, period time.Duration, a config.Algorithm) config.Quota {
	return config.Quota{Rate: config.Rate{Count: n, Period: period}, Algorithm: a}
}

// one is a rule for every key.
func one(name string, q config.Quota) config.Rule {
	return config.Rule{Name: name, Glob: "*", Quota: q}
}

// a desk is a Server, and what a test asks it.
type desk struct {
	*server.Server
	t *testing.T
}

func newDesk(t *testing.T, cfg server.Config, rules ...config.Rule) desk {
	t.Helper()
	if cfg.Rules == nil {
		cfg.Rules = &config.Rules{Rules: rules}
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return desk{s, t}
}

// The methods of decider.Decider, without contexts and without errors that a
// Server does not return.

func (d desk) Decide(req *decider.Request, v *decider.Verdict) {
	if err := d.Server.Decide(context.Background(), req, v); err != nil {
		d.t.Error(err)
	}
}

func (d desk) Batch(reqs []decider.Request, all bool, verdicts []decider.Verdict) bool {
	ok, err := d.Server.Batch(context.Background(), reqs, all, verdicts)
	if err != nil {
		d.t.Error(err)
	}
	return ok
}

func (d desk) Settle(key, id string, n int) (decider.Settlement, error) {
	return d.Server.Settle(context.Background(), key, id, n)
}

func (d desk) Renew(key, id string, ttl time.Duration) (decider.Lease, error) {
	return d.Server.Renew(context.Background(), key, id, ttl)
}

func (d desk) Return(key, id string, o weir.Outcome) error {
	return d.Server.Return(context.Background(), key, id, o)
}

func (d desk) Explain(key string) decider.Explanation {
	x, err := d.Server.Explain(context.Background(), key)
	if err != nil {
		d.t.Error(err)
	}
	return x
}

func (d desk) Top(n int) []decider.Seen {
	keys, err := d.Server.Top(context.Background(), n)
	if err != nil {
		d.t.Error(err)
	}
	return keys
}

// ask decides at once.
func (d desk) ask(key string, n int) decider.Verdict {
	var v decider.Verdict
	d.Decide(&decider.Request{Key: key, N: n}, &v)
	return v
}

// allows checks how many of some requests are allowed.
func (d desk) allows(key string, want, of int) {
	d.t.Helper()
	got := 0
	for range of {
		if d.ask(key, 1).OK {
			got++
		}
	}
	if got != want {
		d.t.Errorf("%q: %d of %d allowed, want %d", key, got, of, want)
	}
}

// wait waits for tokens.
func (d desk) wait(ctx context.Context, req decider.Request) (decider.Verdict, error) {
	var v decider.Verdict
	err := d.Wait(ctx, &req, &v)
	return v, err
}

// queue starts a request in the background, and returns once it waits; the channel
// receives the outcome.
func (d desk) queue(ctx context.Context, req decider.Request) <-chan string {
	d.t.Helper()
	ended := make(chan string, 1)
	start := time.Now()
	go func() {
		v, err := d.wait(ctx, req)
		switch {
		case err != nil:
			ended <- err.Error()
		case !v.OK:
			ended <- fmt.Sprintf("%v after %v", v.Reason, time.Since(start))
		default:
			ended <- fmt.Sprintf("granted after %v", time.Since(start))
		}
	}()
	synctest.Wait()
	return ended
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if a, ok := any(got).(*weir.Rejection); ok {
		if b, ok := any(want).(*weir.Rejection); ok && *a == *b {
			return
		}
	}
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }
