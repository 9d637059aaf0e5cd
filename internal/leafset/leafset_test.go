package leafset_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafset"
)

// An upstream assigns each key the same rate.
type upstream struct {
	mu        sync.Mutex // guards what follows
	rate      float64
	down      bool
	exchanges []leaf.Exchange
}

func (u *upstream) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

func (u *upstream) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	time.Sleep(time.Millisecond)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.down {
		return leaf.Answer{}, errors.New("down")
	}
	own := *x
	own.Reports = append([]leaf.Report(nil), x.Reports...)
	u.exchanges = append(u.exchanges, own)
	a := leaf.Answer{TTLMS: 10_000, NextMS: 1000}
	for _, r := range x.Reports {
		a.Assignments = append(a.Assignments, leaf.Assignment{Key: r.Key, Rate: u.rate, Burst: 1, LimitRate: 100, LimitBurst: 10, Leaves: 2})
	}
	return a, nil
}

var policy = &leaf.Policy{}

// bubble runs a test in virtual time with a Set that has an assignment of k.
func bubble(t *testing.T, cfg leafset.Config, test func(t *testing.T, u *upstream, s *leafset.Set)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{rate: 10}
		cfg.Name, cfg.Upstream = "a", u
		s, err := leafset.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, step := s.Take("k", 1, policy); step != leaf.Ask {
			t.Fatalf("at first by %v", step)
		}
		time.Sleep(10 * time.Millisecond)
		test(t, u, s)
		_ = s.Close(t.Context())
	})
}

// Callers wait in their order, and a longer queue is woken by a greater rate.
func TestWait(t *testing.T) {
	bubble(t, leafset.Config{}, func(t *testing.T, u *upstream, s *leafset.Set) {
		var callers sync.WaitGroup
		var mu sync.Mutex
		var order []int
		start := time.Now()
		for i := range 40 {
			callers.Go(func() {
				if step, err := s.Wait(t.Context(), "k", 1, time.Minute, policy); err != nil || step != leaf.Assigned {
					t.Errorf("%v, %v", step, err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		u.set(func() { u.rate = 100 })
		callers.Wait()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("40 tokens took %v, want a surge to be reported and a greater rate to wake callers", took)
		}
		for i, caller := range order {
			if i != caller {
				t.Fatalf("order %v", order)
			}
		}
		if n := s.Stats(); n.Waiting != 0 || n.Allowed[leaf.Assigned] != 40 {
			t.Errorf("%+v", n)
		}
	})
}

// Waits that end without tokens.
func TestWaitEnds(t *testing.T) {
	bubble(t, leafset.Config{}, func(t *testing.T, u *upstream, s *leafset.Set) {
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.Wait(soon, "k", 1, time.Minute, policy); reason(err) != weir.TooLate {
			t.Errorf("a deadline before the turn: %v", err)
		}
		if _, err := s.Wait(t.Context(), "k", 1, 0, policy); reason(err) != weir.OverRate {
			t.Errorf("no wait: %v", err)
		}
		if step, err := s.Wait(t.Context(), "other", 1, time.Minute, policy); step != leaf.Ask || err != nil {
			t.Errorf("without an assignment: %v, %v", step, err)
		}
		leaving, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if _, err := s.Wait(leaving, "k", 1, time.Minute, policy); err != context.Canceled {
			t.Errorf("a caller that leaves: %v", err)
		}
		if _, err := s.Wait(leaving, "k", 1, time.Minute, policy); err != context.Canceled {
			t.Errorf("a caller that has left: %v", err)
		}
		var caller sync.WaitGroup
		caller.Go(func() {
			if _, err := s.Wait(t.Context(), "k", 1, time.Minute, policy); reason(err) != weir.Closed {
				t.Errorf("closed while it waits: %v", err)
			}
		})
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		caller.Wait()
		if x := u.exchanges[len(u.exchanges)-1]; !x.Leave {
			t.Errorf("the last exchange is %+v", x)
		}
		if _, err := s.Wait(t.Context(), "k", 1, time.Minute, policy); reason(err) != weir.Closed {
			t.Errorf("closed: %v", err)
		}
		if d, step := s.Take("k", 1, policy); d.OK || step != leaf.ByRule {
			t.Errorf("closed: %+v by %v", d, step)
		}
	})
}

func reason(err error) weir.Reason {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.Reason
	}
	return 0
}

// While the upstream is away, the Set goes down the ladder, and up when it is back.
func TestAway(t *testing.T) {
	share := &leaf.Policy{Away: leaf.ShareAway}
	bubble(t, leafset.Config{}, func(t *testing.T, u *upstream, s *leafset.Set) {
		u.set(func() { u.down = true })
		time.Sleep(2 * time.Second)
		if _, step := s.Take("k", 1, share); step != leaf.Last || !s.Stats().Away {
			t.Errorf("by %v", step)
		}
		time.Sleep(10 * time.Second)
		if d, step := s.Take("k", 1, share); step != leaf.Share || !d.OK {
			t.Errorf("%+v by %v", d, step)
		}
		u.set(func() { u.down = false })
		time.Sleep(5 * time.Second)
		if _, step := s.Take("k", 1, share); step != leaf.Assigned || s.Stats().Away {
			t.Errorf("by %v", step)
		}
		if n := s.Stats(); n.Failures == 0 || n.Keys != 1 || n.Assigned != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// Many goroutines take, wait, settle and leave at once.
func TestConcurrency(t *testing.T) {
	bubble(t, leafset.Config{Shards: 4}, func(t *testing.T, u *upstream, s *leafset.Set) {
		u.set(func() { u.rate = 1000 })
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				for j := range 50 {
					key := fmt.Sprint((i + j) % 20)
					s.Take(key, 1, policy)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j)*time.Millisecond)
					if step, err := s.Wait(ctx, key, 1, time.Second, policy); err == nil && step != leaf.Ask {
						s.Settle(key, s.Now(), 1, 0)
					}
					cancel()
					s.Charge(key, 1)
					s.Stats()
				}
			})
		}
		callers.Wait()
		if n := s.Stats(); n.Waiting != 0 || n.Keys != 21 {
			t.Errorf("%+v", n)
		}
	})
}

func TestConfig(t *testing.T) {
	for _, cfg := range []leafset.Config{
		{Upstream: &upstream{}},
		{Config: leaf.Config{Name: "a"}},
		{Config: leaf.Config{Name: "a", MaxKeys: -1}, Upstream: &upstream{}},
		{Config: leaf.Config{Name: "a"}, Upstream: &upstream{}, Timeout: -1},
	} {
		if _, err := leafset.New(cfg); err == nil {
			t.Errorf("%+v is valid", cfg)
		}
	}
}

// A decision allocates nothing.
func TestAllocations(t *testing.T) {
	bubble(t, leafset.Config{}, func(t *testing.T, u *upstream, s *leafset.Set) {
		if n := testing.AllocsPerRun(1000, func() { s.Take("k", 1, policy) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
