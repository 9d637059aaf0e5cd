package client_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
)

// Requests that come while another is under way go together in the next one.
func TestBatch(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		f.tokens["a"], f.slow = 5, 10*time.Millisecond
		var wg sync.WaitGroup
		allowed := make(chan bool, 8)
		for range 8 {
			wg.Go(func() {
				d, err := c.Take(t.Context(), "a", 1)
				if err != nil {
					t.Error(err)
				}
				allowed <- d.OK
			})
			synctest.Wait()
		}
		wg.Wait()
		close(allowed)
		n := 0
		for ok := range allowed {
			if ok {
				n++
			}
		}
		if requests := f.count("POST /rate"); n != 5 || requests != 2 {
			t.Errorf("%d allowed, %d requests: want 5 and 2", n, requests)
		}
	})
}

// A call of For waits at the server, and tells it the true cost.
func TestFor(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		time.AfterFunc(2*time.Second, func() { f.set(func() { f.tokens["a"] = 3 }) })
		began := time.Now()
		p, err := c.For("a").Acquire(t.Context(), 3)
		if took := time.Since(began); err != nil || took < 2*time.Second || took > 2*time.Second+10*time.Millisecond {
			t.Fatalf("%v after %v", err, took)
		}
		p.Use(1)
		p.Release(weir.Success)
		synctest.Wait()
		if !slices.Equal(values(f.settled), []int{1}) || c.Stats().Dropped != 0 {
			t.Errorf("settled %v, %+v", f.settled, c.Stats())
		}
	})
}

func values(m map[string]int) (all []int) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// A caller that leaves the queue at the server gets the error of its context, and
// its request is cancelled.
func TestCancelledWait(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.For("a").Acquire(ctx, 1); err != context.Canceled || c.Stats().Waiting != 0 {
			t.Errorf("%v, %+v", err, c.Stats())
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if f.cancelled != 1 {
			t.Error("the request goes on")
		}
	})
}

// No more than Config.Queue calls wait at the server.
func TestQueueFull(t *testing.T) {
	bubble(t, client.Config{Queue: 1, MaxWait: time.Second}, func(t *testing.T, f *fake, c *client.Client) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.For("a").Acquire(t.Context(), 1); reasonOf(err) != weir.OverRate && reasonOf(err) != weir.TooLate {
				t.Errorf("%v: want it refused after MaxWait", err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		if _, err := c.For("a").Acquire(t.Context(), 1); reasonOf(err) != weir.QueueFull {
			t.Errorf("%v: want queue_full", err)
		}
		wg.Wait()
	})
}

func reasonOf(err error) weir.Reason {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.Reason
	}
	return 0
}

// A lease is renewed while it is held, and its outcome reaches the server. When
// renewals fail until it has expired, its holder is told.
func TestLease(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		f.units["job"] = 2
		h, err := c.Hold(t.Context(), "job", 1)
		testrig.Must(t, err)
		time.Sleep(10 * time.Second)
		if n := f.count("POST /lease/job/id1"); h.Err() != nil || n < 9 || n > 11 {
			t.Errorf("%v, %d renewals: want one a second", h.Err(), n)
		}
		if err := weir.Do(t.Context(), c.Lease("job"), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		f.set(func() { f.down = true })
		time.Sleep(4 * time.Second)
		if context.Cause(h) != client.ErrLost || c.Stats().Lost != 1 || c.Stats().Leases != 0 {
			t.Errorf("%v, %+v", context.Cause(h), c.Stats())
		}
		if !slices.Equal(f.outcomes, []string{"success"}) {
			t.Errorf("outcomes %v", f.outcomes)
		}
	})
}

// While the server is away, the Client decides as Away says, and Hold is refused.
func TestAway(t *testing.T) {
	for _, tt := range []struct {
		away    client.Away
		allowed int // of 5
	}{{client.Local, 2}, {client.Allow, 5}, {client.Deny, 0}} {
		told := make(chan error, 2)
		cfg := client.Config{Away: tt.away, LocalQuota: gcra.Per(2, time.Hour, 2), OnAway: func(err error) { told <- err }}
		bubble(t, cfg, func(t *testing.T, f *fake, c *client.Client) {
			f.tokens["a"], f.down = 100, true
			n := 0
			for range 5 {
				if d, err := c.Take(t.Context(), "a", 1); err != nil {
					t.Error(err)
				} else if d.OK {
					n++
				}
			}
			synctest.Wait()
			if n != tt.allowed || !c.Stats().Away || <-told == nil {
				t.Errorf("%v: %d allowed, %+v: want %d", tt.away, n, c.Stats(), tt.allowed)
			}
			if _, err := c.Hold(t.Context(), "a", 1); reasonOf(err) != weir.Closed {
				t.Errorf("Hold: %v", err)
			}
			f.set(func() { f.down = false })
			time.Sleep(5 * time.Second)
			_, _ = c.Take(t.Context(), "a", 1) // causes a probe
			synctest.Wait()
			if d, err := c.Take(t.Context(), "a", 1); !d.OK || err != nil || c.Stats().Away || <-told != nil {
				t.Errorf("%v: %+v, %v, %+v: want the server back", tt.away, d, err, c.Stats())
			}
		})
	}
}

// While the server is away, leases too are decided as Away says.
func TestAwayLease(t *testing.T) {
	for away, granted := range map[client.Away]int{client.Local: 2, client.Allow: 5, client.Deny: 0} {
		bubble(t, client.Config{Away: away}, func(t *testing.T, f *fake, c *client.Client) {
			f.units["job"] = 2
			_ = weir.Do(t.Context(), c.Lease("job"), func(context.Context) error { return nil }) // tells the limit
			f.set(func() { f.down = true })
			n := 0
			for range 5 {
				if _, err := c.Lease("job").Acquire(t.Context(), 1); err == nil {
					n++
				}
			}
			if n != granted {
				t.Errorf("%v: %d leases: want %d", away, n, granted)
			}
		})
	}
}

// An answer that is late is decided locally after Config.Timeout.
func TestLate(t *testing.T) {
	bubble(t, client.Config{Timeout: 20 * time.Millisecond}, func(t *testing.T, f *fake, c *client.Client) {
		f.slow = time.Second
		began := time.Now()
		if d, err := c.Take(t.Context(), "a", 1); !d.OK || err != nil || time.Since(began) != 20*time.Millisecond {
			t.Errorf("%+v, %v after %v", d, err, time.Since(began))
		}
		if st := c.Stats(); st.Local != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A refusal of the request is an error that says what the server said.
func TestStatusError(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		f.status = 404
		_, err := c.Lease("a").Acquire(t.Context(), 1)
		if e, ok := errors.AsType[*client.StatusError](err); !ok || e.Status != 404 || e.Error() != "client: 404 Not Found: no such rule" {
			t.Errorf("%v", err)
		}
	})
}

// Close rejects the calls that wait, and later ones, and returns the leases.
func TestClose(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		f.units["job"] = 1
		h, err := c.Hold(t.Context(), "job", 1)
		testrig.Must(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.For("a").Acquire(t.Context(), 1); reasonOf(err) != weir.Closed {
				t.Errorf("a call that waits: %v", err)
			}
		})
		time.Sleep(time.Second)
		c.Close()
		wg.Wait()
		if _, err := c.Take(t.Context(), "a", 1); reasonOf(err) != weir.Closed || h.Err() == nil || f.units["job"] != 1 {
			t.Errorf("%v, %v, %d units", err, h.Err(), f.units["job"])
		}
	})
}
