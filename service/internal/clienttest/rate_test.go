package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

func TestTake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newSite(t, every(3, 3*time.Second)).client(client.Config{})
		for i, want := range []weir.Decision{
			{OK: true, Remaining: 2}, {OK: true, Remaining: 1}, {OK: true}, {RetryAfter: time.Second},
		} {
			d, err := c.Take(t.Context(), "a", 1)
			must(t, err)
			check(t, fmt.Sprint("decision ", i), d, want)
		}
		d, err := c.Take(t.Context(), "a", 4)
		must(t, err)
		check(t, "more than the burst", d, weir.Decision{RetryAfter: weir.Never})
		d, err = c.Take(t.Context(), "b", 0)
		must(t, err)
		check(t, "a look", d, weir.Decision{OK: true, Remaining: 3})
	})
}

func TestKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Hour))
		c := s.client(client.Config{})
		for _, key := range []string{"a/b", "a%2Fb", "..", ".", "a b", `"\`, "ключ", "a?b#c", "a+b", ";", "a&b=c", "a\u2028b"} {
			p, err := c.For(key).Acquire(t.Context(), 1)
			must(t, err)
			if got := s.left(key); got != 0 {
				t.Errorf("%q: %d left after it was taken", key, got)
			}
			p.Use(0)
			p.Release(weir.Success)
			synctest.Wait()
			if got := s.left(key); got != 1 {
				t.Errorf("%q: %d left after it was given back", key, got)
			}
		}
		for _, path := range []string{"POST /rate/./", "POST /rate/../"} { // which others than weir serve would shorten
			check(t, path, s.requests(path), 0)
		}
		for _, key := range []string{"", "  ", "\x00", "a\nb", "\xff", strings.Repeat("a", 1025)} {
			before := c.Stats().Requests
			_, err := c.Take(t.Context(), key, 1)
			if err == nil || c.Stats().Requests != before {
				t.Errorf("%q: %v: want an error, and no request", key, err)
			}
		}
	})
}

func TestAcquireWaits(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		timeout time.Duration // of the context; 0 is none
		maxWait time.Duration
		n       int
		want    weir.Reason
		retry   time.Duration
		after   time.Duration
	}{
		{"for its turn", 0, 0, 1, 0, 0, time.Second},
		{"for its turn, if the deadline allows", 1001 * time.Millisecond, 0, 1, 0, 0, time.Second},
		{"not if its turn comes after the deadline", 500 * time.Millisecond, 0, 1, weir.TooLate, time.Second, 0},
		{"not longer than MaxWait", 0, 500 * time.Millisecond, 1, weir.OverRate, time.Second, 0},
		{"not longer than MaxWait, if the deadline is later", time.Hour, 500 * time.Millisecond, 1, weir.OverRate, time.Second, 0},
		{"not for what never comes", 0, 0, 2, weir.OverBurst, weir.Never, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(1, time.Second))
				c := s.client(client.Config{MaxWait: tt.maxWait})
				takes(t, c, "a", 1, 1)
				ctx, start := t.Context(), time.Now()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				p, err := c.For("a").Acquire(ctx, tt.n)
				p.Release(weir.Success)
				check(t, "reason", reason(err), tt.want)
				check(t, "after", time.Since(start), tt.after)
				check(t, "stood in line", s.requests("POST /rate/a") > 0, tt.after > 0)
				if r, ok := errors.AsType[*weir.Rejection](err); ok {
					check(t, "retry after", r.RetryAfter, tt.retry)
				} else {
					must(t, err)
				}
			})
		})
	}
}

// The queue is at the server: calls are served in order of arrival, over all clients.
func TestOneLineForAllClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Second))
		clients := []*client.Client{s.client(client.Config{}), s.client(client.Config{})}
		takes(t, clients[0], "a", 1, 1)
		var mu sync.Mutex
		var order []int
		for i := range 6 {
			go func() {
				_, err := clients[i%2].For("a").Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
		}
		check(t, "waiting", clients[0].Stats().Waiting+clients[1].Stats().Waiting, 6)
		takes(t, clients[0], "a", 0, 1) // a new call does not overtake waiting ones
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check(t, "order", fmt.Sprint(order), "[0 1 2 3 4 5]")
	})
}

func TestUseSettles(t *testing.T) {
	for _, tt := range []struct {
		rule string
		use  []int
		want int // left of 10
		sent int
	}{
		{"as acquired", nil, 5, 0},
		{"as acquired after all", []int{3, 5}, 5, 0},
		{"less comes back", []int{2}, 8, 1},
		{"nothing used, all comes back", []int{0}, 10, 1},
		{"more is charged", []int{7}, 3, 1},
		{"the last word counts", []int{1, 9, 4}, 6, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(10, time.Hour))
				p, err := s.client(client.Config{}).For("a").Acquire(t.Context(), 5)
				must(t, err)
				for _, n := range tt.use {
					p.Use(n)
				}
				p.Release(weir.Success)
				p.Release(weir.Success)
				synctest.Wait()
				check(t, "left", s.left("a"), tt.want)
				check(t, "settled", s.requests("POST /rate/a/"), tt.sent)
			})
		})
	}
}

// A cost that the server would not accept is not sent, as it would be refused with
// all that is asked for beside it; a true cost is told as far as it can be.
func TestCostsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		c := s.client(client.Config{})
		for name, f := range map[string]func(n int) error{
			"Take":  func(n int) error { _, err := c.Take(t.Context(), "a", n); return err },
			"For":   func(n int) error { _, err := c.For("a").Acquire(t.Context(), n); return err },
			"Lease": func(n int) error { _, err := c.Lease("a").Acquire(t.Context(), n); return err },
			"Hold":  func(n int) error { _, err := c.Hold(t.Context(), "a", n); return err },
		} {
			if err := f(math.MaxInt32 + 1); err == nil || c.Stats().Requests > 0 {
				t.Errorf("%s: %v: want an error, and no request", name, err)
			}
		}
		d, err := c.Take(t.Context(), "a", math.MaxInt32)
		must(t, err)
		check(t, "more than there ever is", d, weir.Decision{RetryAfter: weir.Never})
		p, err := c.For("a").Acquire(t.Context(), 5)
		must(t, err)
		p.Use(math.MaxInt)
		p.Release(weir.Success)
		synctest.Wait()
		check(t, "told", s.requests("POST /rate/a/"), 1)
		check(t, "dropped", c.Stats().Dropped, 0)
	})
}

// Chain gives back the earlier links if a later one refuses; Do works with all.
func TestChainAndDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		c := s.client(client.Config{})
		work := func(context.Context) error { return nil }
		must(t, weir.Do(t.Context(), weir.Chain(c.For("a"), c.For("b")), work))
		takes(t, c, "b", 9, 9)
		err := weir.Do(t.Context(), weir.Chain(c.For("a"), c.For("b")), work)
		check(t, "reason", reason(err), weir.OverRate)
		synctest.Wait()
		check(t, "left of a", s.left("a"), 9)
	})
}

func TestWaitersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newSite(t, every(1, time.Second)).client(client.Config{Queue: 2})
		takes(t, c, "a", 1, 1)
		for range 2 {
			go func() { _, _ = c.For("a").Acquire(t.Context(), 1) }()
			synctest.Wait()
		}
		_, err := c.For("a").Acquire(t.Context(), 1)
		check(t, "reason", reason(err), weir.QueueFull)
		time.Sleep(3 * time.Second)
		check(t, "waiting", c.Stats().Waiting, 0)
	})
}

func TestNothingCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Second))
		c := s.client(client.Config{})
		for _, l := range []weir.Limiter{c.For("a"), c.Lease("a")} {
			p, err := l.Acquire(t.Context(), 0)
			must(t, err)
			p.Release(weir.Success)
		}
		check(t, "requests", s.requests(""), 0)
	})
}

func TestNegativeCostPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newSite(t).client(client.Config{})
		for name, f := range map[string]func(){
			"Take":    func() { _, _ = c.Take(t.Context(), "a", -1) },
			"Acquire": func() { _, _ = c.For("a").Acquire(t.Context(), -1) },
			"Lease":   func() { _, _ = c.Lease("a").Acquire(t.Context(), -1) },
			"Hold":    func() { _, _ = c.Hold(t.Context(), "a", 0) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				f()
			}()
		}
	})
}
