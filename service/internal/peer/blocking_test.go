package peer_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A slowDecider takes a second for each decision.
type slowDecider struct{ decider.Decider }

func (d slowDecider) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	time.Sleep(time.Second)
	return d.Decider.Decide(ctx, req, v)
}

func (d slowDecider) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	time.Sleep(time.Second)
	return d.Decider.Batch(ctx, reqs, all, verdicts)
}

// A Decider that blocks does not delay other requests on the connection, and gives the same answers.
func TestBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.Config{}, config.Rule{Name: "all", Glob: "*", Quota: quota(10, time.Hour, config.GCRA), Concurrency: &config.Concurrency{Limit: 2}})
		s := newSite(t, serve.Config{Decider: slowDecider{srv}, Blocking: true})
		c := s.dial(peer.Config{})
		ctx, began := t.Context(), time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				var v decider.Verdict
				if err := c.Decide(ctx, &decider.Request{Key: "a", N: 1, WantID: true}, &v); err != nil || !v.OK || v.Grant.ID == "" {
					t.Errorf("%+v, %v", v, err)
					return
				}
				if done, err := c.Settle(ctx, "a", v.Grant.ID, 0); err != nil || done.Charged != 0 {
					t.Errorf("%+v, %v", done, err)
				}
			})
			all.Go(func() {
				if ok, err := c.Batch(ctx, []decider.Request{{Key: "b", N: 1}, {Key: "c", N: 1}}, true, make([]decider.Verdict, 2)); err != nil || !ok {
					t.Errorf("%v, %v", ok, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("10 requests of a second took %v", took)
		}
		l, err := c.Acquire(ctx, decider.LeaseRequest{Key: "a", N: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Renew(ctx, "a", l.ID, time.Second); err != nil {
			t.Error(err)
		}
		if err := c.Return(ctx, "a", l.ID, 0); err != nil {
			t.Error(err)
		}
		if err := c.Return(ctx, "a", l.ID, 0); err != decider.ErrNoLease {
			t.Errorf("returned again: %v", err)
		}
	})
}

// A Client asks at its Path, with its Token.
func TestPathAndToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := errors.New("not allowed")
		s := newSite(t, serve.Config{Allow: func(r *http.Request) error {
			if r.Header.Get("Authorization") == "Bearer secret" {
				return nil
			}
			return allowed
		}})
		var v decider.Verdict
		for cfg, want := range map[*peer.Config]bool{{Token: "secret"}: true, {}: false, {Token: "secret", Path: "/elsewhere"}: false} {
			if err := s.dial(*cfg).Decide(t.Context(), &decider.Request{Key: "a", N: 1}, &v); (err == nil) != want {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
	})
}
