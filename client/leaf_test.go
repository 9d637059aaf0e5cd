package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/leaf"
)

// quarter is an assignment of 25 of 100 tokens a second.
var quarter = leaf.Assignment{Rate: 25, Burst: 5, LimitRate: 100, LimitBurst: 20, Leaves: 4}

// allowed takes tokens one by one, and returns how many it got.
func allowed(t *testing.T, c *client.Client, key string, tries int) (n int) {
	t.Helper()
	for range tries {
		d, err := c.Take(t.Context(), key, 1)
		testrig.Must(t, err)
		if d.OK {
			n++
		}
	}
	return n
}

// The server decides about a key until it has assigned a rate. From then on the Client
// decides, without a request for each decision.
func TestLeaf(t *testing.T) {
	bubble(t, client.Config{Leaf: &client.LeafConfig{Name: "pod-7"}}, func(t *testing.T, f *fake, c *client.Client) {
		f.rates["a"], f.tokens["a"] = quarter, 3
		if n := allowed(t, c, "a", 1); n != 1 || f.count("POST /rate") != 1 {
			t.Fatalf("at first %d allowed, %d asked: want the server to decide", n, f.count("POST /rate"))
		}
		time.Sleep(time.Second)
		if n := allowed(t, c, "a", 9); n != 5 {
			t.Errorf("%d allowed, want the assigned burst", n)
		}
		time.Sleep(100 * time.Millisecond)
		if n := allowed(t, c, "a", 9); n != 2 {
			t.Errorf("%d allowed after 100 ms, want 2", n)
		}
		if n := f.count("POST /rate"); n != 1 {
			t.Errorf("%d requests for decisions, want only the first", n)
		}
		if s := c.Stats().Leaf; s.Keys != 1 || s.Assigned != 1 || s.Asked != 1 || s.ByAssigned != 18 {
			t.Errorf("stats %+v", s)
		}
		_ = c.Close()
		if x := f.exchanges[len(f.exchanges)-1]; !x.Leave || x.Leaf != "pod-7" {
			t.Errorf("the last exchange is %+v, want it to leave", x)
		}
		if _, err := c.Take(t.Context(), "a", 1); reasonOf(err) != weir.Closed {
			t.Errorf("a closed leaf: %v", err)
		}
	})
}

// Calls of For wait here, in their order, and settle here.
func TestLeafFor(t *testing.T) {
	bubble(t, client.Config{Leaf: &client.LeafConfig{}, MaxWait: time.Second}, func(t *testing.T, f *fake, c *client.Client) {
		f.rates["a"] = leaf.Assignment{Rate: 10, Burst: 1, LimitRate: 10, LimitBurst: 1, Leaves: 1}
		allowed(t, c, "a", 1)
		time.Sleep(time.Second)
		allowed(t, c, "a", 1)
		began := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for i := range 3 {
			wg.Go(func() {
				p, err := c.For("a").Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if took := time.Since(began).Round(time.Millisecond); took != time.Duration(i+1)*100*time.Millisecond {
					t.Errorf("call %d has waited %v", i, took)
				}
				p.Release(weir.Success)
			})
			synctest.Wait()
		}
		cancelled, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
		defer cancel()
		_, err := c.For("a").Acquire(cancelled, 1)
		if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != weir.TooLate {
			t.Errorf("a call with too early a deadline: %v", err)
		}
		wg.Wait()
		time.Sleep(100 * time.Millisecond)
		p, err := c.For("a").Acquire(t.Context(), 1)
		testrig.Must(t, err)
		p.Use(0)
		p.Release(weir.Success)
		if n := allowed(t, c, "a", 2); n != 1 {
			t.Errorf("%d allowed after one was given back", n)
		}
		if n := f.count("POST /rate/a"); n != 0 {
			t.Errorf("%d calls waited at the server", n)
		}
	})
}

// While the server is away, a leaf goes on by its last assignment, then by its share, and comes back
// without a burst.
func TestLeafWithoutItsServer(t *testing.T) {
	cfg := client.Config{Leaf: &client.LeafConfig{}, Away: client.Local, Instances: 10, LocalQuota: gcra.PerSecond(1, 1)}
	bubble(t, cfg, func(t *testing.T, f *fake, c *client.Client) {
		f.rates["a"] = quarter
		allowed(t, c, "a", 1)
		time.Sleep(time.Second)
		f.set(func() { f.down = true })
		time.Sleep(5 * time.Second)
		before := c.Stats().Leaf
		if n := allowed(t, c, "a", 9); n != 5 {
			t.Errorf("%d allowed by the last assignment, want 5", n)
		}
		time.Sleep(20 * time.Second)
		if n := allowed(t, c, "a", 9); n != 2 { // 10 a second, burst 2
			t.Errorf("%d allowed by the share, want 2", n)
		}
		if n := allowed(t, c, "unheard of", 9); n > 1 {
			t.Errorf("%d of an unknown key allowed, want at most 1", n)
		}
		if s := c.Stats(); !s.Away || s.Leaf.ByLast-before.ByLast != 9 || s.Leaf.ByShare-before.ByShare != 18 {
			t.Errorf("stats %+v", s)
		}
		f.set(func() { f.down = false })
		time.Sleep(5 * time.Second)
		if n := allowed(t, c, "a", 99); n != 5 {
			t.Errorf("%d allowed when the server is back, want 5", n)
		}
		if s := c.Stats(); s.Away || s.Leaf.Assigned == 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A server that knows no leaves decides about each request.
func TestLeafOfAnOldServer(t *testing.T) {
	bubble(t, client.Config{Leaf: &client.LeafConfig{}, Away: client.Deny}, func(t *testing.T, f *fake, c *client.Client) {
		f.set(func() { f.status = 404 })
		_, err := c.Take(t.Context(), "a", 1)
		if s, ok := errors.AsType[*client.StatusError](err); !ok || s.Status != 404 {
			t.Fatalf("%v: want the status of the server", err)
		}
		time.Sleep(time.Second)
		f.set(func() { f.status, f.tokens["a"] = 0, 9 })
		time.Sleep(time.Second)
		if n := allowed(t, c, "a", 1); n != 1 || c.Stats().Leaf.Refused == 0 {
			t.Errorf("%d allowed, %+v", n, c.Stats())
		}
	})
}

func TestLeafConfig(t *testing.T) {
	for want, cfg := range map[string]client.Config{
		"client: Leaf.First = 3: must be AskServer, FirstShare or FirstDeny": {Leaf: &client.LeafConfig{First: 3}},
		"client: Leaf.First = FirstShare: needs LocalQuota":                  {Leaf: &client.LeafConfig{First: client.FirstShare}},
		"client: Leaf.MaxKeys = -1: must be >= 0":                            {Leaf: &client.LeafConfig{MaxKeys: -1}},
	} {
		cfg.URL, cfg.Away = "http://weir.example", client.Deny
		if _, err := client.New(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A cost that a permit reports leaves the bucket of an assignment as one from which only that was taken
// when the permit was granted.
func TestLeafPartialSettlements(t *testing.T) {
	for _, tt := range []struct {
		calls, was, n int
		after         time.Duration
		left          int
	}{
		{1, 200, 80, 4 * time.Second, 666},
		{1, 200, 80, 12 * time.Second, 700},
		{7, 100, 20, 15 * time.Second, 700},
	} {
		bubble(t, client.Config{Leaf: &client.LeafConfig{}}, func(t *testing.T, f *fake, c *client.Client) {
			f.rates["a"] = leaf.Assignment{Rate: 700. / 60, Burst: 700, LimitRate: 700. / 60, LimitBurst: 700, Leaves: 1}
			for range 61 { // the bucket of the assignment fills
				_, _ = c.Take(t.Context(), "a", 0)
				time.Sleep(time.Second)
			}
			for range tt.calls {
				p, err := c.For("a").Acquire(t.Context(), tt.was)
				testrig.Must(t, err)
				time.AfterFunc(tt.after, func() {
					p.Use(tt.n)
					p.Release(weir.Success)
				})
			}
			time.Sleep(tt.after)
			synctest.Wait()
			if d, err := c.Take(t.Context(), "a", 0); err != nil || d.Remaining != tt.left {
				t.Errorf("%d times %d after %v: %+v, %v: want %d left", tt.calls, tt.was, tt.after, d, err, tt.left)
			}
		})
	}
}
