package peer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Whatever happens to the connections, each request ends with a verdict, ErrUnavailable or the error of
// its context, and nothing stays behind: no request at the owner, no lease beyond its time.
func TestChaos(t *testing.T) {
	for seed := range uint64(5) {
		bubble(t, func(t *testing.T) { chaos(t, seed) })
	}
}

func chaos(t *testing.T, seed uint64) {
	rule := one("all", quota(20, time.Second, config.GCRA))
	rule.MaxWait = 5 * time.Second
	rule.Concurrency = &config.Concurrency{Limit: 3, TTL: 5 * time.Second, MaxTTL: 5 * time.Second, MaxWait: 5 * time.Second}
	owner := newServer(t, server.Config{}, rule)
	s := newSite(t, serve.Config{Decider: owner})
	c := s.dial(peer.Config{Conns: 2})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var answers, errs atomic.Int64
	for i := range uint64(30) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			for ctx.Err() == nil {
				if err := random(ctx, c, r); err == nil {
					answers.Add(1)
				} else if errs.Add(1); !errors.Is(err, wire.ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 1000))
	for ctx.Err() == nil {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		if r.IntN(3) == 0 {
			s.network.Silence()
		} else {
			s.breaks()
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		}
		s.network.Repair()
	}
	wg.Wait()
	synctest.Wait()
	if st := c.Stats(); st.Inflight != 0 || answers.Load() < 1000 || errs.Load() < 50 || st.Connects < 10 {
		t.Errorf("%+v, %d answers, %d errors", st, answers.Load(), errs.Load())
	}
	time.Sleep(10 * time.Second)
	x, err := owner.Explain(t.Context(), "a")
	if st := x.Rules[0]; err != nil || owner.Waiting() != 0 || s.Stats().Waiting != 0 || st.Used != 0 || st.Lease.Inflight != 0 {
		t.Errorf("%d and %d wait, %+v %+v %v", owner.Waiting(), s.Stats().Waiting, st, st.Lease, err)
	}
}

// random makes a random request.
func random(ctx context.Context, c *peer.Client, r *rand.Rand) error {
	if r.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+r.IntN(1000))*time.Millisecond)
		defer cancel()
	}
	var vs [3]decider.Verdict
	switch r.IntN(4) {
	case 0:
		return c.Decide(ctx, &decider.Request{Key: "a", N: 1}, &vs[0])
	case 1:
		return c.Wait(ctx, &decider.Request{Key: "a", N: 1}, &vs[0])
	case 2:
		_, err := c.Batch(ctx, []decider.Request{{Key: "a", N: 1}, {Key: "b", N: 1}, {Key: "c", N: 1}}, true, vs[:])
		return err
	}
	l, err := c.Acquire(ctx, decider.LeaseRequest{Key: "a", N: 1, Wait: true})
	if errors.Is(err, weir.ErrRejected) {
		return nil
	}
	if err == nil {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		if err = c.Return(ctx, "a", l.ID, weir.Success); err == decider.ErrNoLease {
			return nil // it was returned, but the answer was lost, or it expired while the link was broken
		}
	}
	return err
}
