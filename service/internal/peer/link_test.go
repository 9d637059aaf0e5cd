package peer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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

// slow is a rule with a window of ten seconds, and leases.
func slow() config.Rule {
	r := one("slow", quota(1, 10*time.Second, config.Fixed))
	r.MaxWait = time.Hour
	r.Concurrency = &config.Concurrency{Limit: 1, TTL: time.Hour, MaxTTL: time.Hour, MaxWait: time.Hour}
	return r
}

// newSlowSite returns a server with the rule slow, of which the first token of key a is taken, and a Client.
func newSlowSite(t *testing.T) (*server.Server, *site, *peer.Client) {
	owner := newServer(t, server.Config{}, slow())
	s := newSite(t, serve.Config{Decider: owner})
	c := s.dial(peer.Config{})
	decide(c, "a", 1)
	return owner, s, c
}

// waiters begins to wait for tokens of a key, one after another. The results come in the order in
// which the waits end.
func waiters(t *testing.T, ctx context.Context, c *peer.Client, key string, n int) <-chan error {
	t.Helper()
	results := make(chan error, n)
	for range n {
		go func() {
			var v decider.Verdict
			err := c.Wait(ctx, &decider.Request{Key: key, N: 1}, &v)
			if err == nil && !v.OK {
				err = fmt.Errorf("denied: %v", v.Reason)
			}
			results <- err
		}()
		synctest.Wait()
	}
	return results
}

// A caller that leaves while its request waits leaves the queue of the owner.
func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		owner, _, c := newSlowSite(t)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.Acquire(ctx, decider.LeaseRequest{Key: "a", N: 1}); err != nil {
			t.Fatal(err)
		}
		results := waiters(t, ctx, c, "a", 3)
		leased := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, decider.LeaseRequest{Key: "a", N: 1, Wait: true})
			leased <- err
		}()
		synctest.Wait()
		if n := owner.Waiting(); n != 4 {
			t.Errorf("%d wait", n)
		}
		cancel()
		synctest.Wait()
		if n := owner.Waiting(); n != 0 {
			t.Errorf("%d wait for callers that have left", n)
		}
		for range 3 {
			if err := <-results; err != context.Canceled {
				t.Error(err)
			}
		}
		if err := <-leased; err != context.Canceled {
			t.Error(err)
		}
		if st := c.Stats(); st.Inflight != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A deaf Decider grants what a caller asks for a second later, whether it is still there.
type deaf struct{ *server.Server }

func (d deaf) Wait(_ context.Context, req *decider.Request, v *decider.Verdict) error {
	req.OnWait()
	time.Sleep(time.Second)
	return d.Server.Wait(context.Background(), req, v)
}

func (d deaf) Acquire(_ context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	req.OnWait()
	time.Sleep(time.Second)
	return d.Server.Acquire(context.Background(), req)
}

// What is granted to a caller that has left, or over a connection that has ended, goes back.
func TestLateGrant(t *testing.T) {
	for _, how := range []string{"cancel", "break"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				owner := newServer(t, server.Config{}, slow())
				s := newSite(t, serve.Config{Decider: deaf{owner}})
				c := s.dial(peer.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				results := waiters(t, ctx, c, "a", 1)
				leased := make(chan error, 1)
				go func() {
					_, err := c.Acquire(ctx, decider.LeaseRequest{Key: "a", N: 1, Wait: true})
					leased <- err
				}()
				synctest.Wait()
				want := context.Canceled
				if cancel(); how == "break" {
					s.breaks()
					want = wire.ErrUnavailable
				}
				for _, err := range []error{<-results, <-leased} {
					if how == "cancel" && !errors.Is(err, want) {
						t.Error(err)
					}
				}
				time.Sleep(2 * time.Second)
				x, _ := owner.Explain(t.Context(), "a")
				if st := x.Rules[0]; st.Used != 0 || st.Lease.Inflight != 0 {
					t.Errorf("%+v %+v: want nothing in use", st, st.Lease)
				}
			})
		})
	}
}

// When the connection breaks, requests fail, and the Client connects again.
func TestBreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		owner := newServer(t, server.Config{}, slow())
		s := newSite(t, serve.Config{Decider: owner, Self: wire.Info{Node: "n1", Version: "v1", Revision: wire.KnowsEpochs}, Rules: owner.Rules})
		var mu sync.Mutex
		var states []string
		c := s.dial(peer.Config{OnState: func(st peer.State) {
			mu.Lock()
			defer mu.Unlock()
			if up := map[bool]string{true: "up ", false: "down "}[st.Up]; st.Up == (st.Err == nil) && !st.Leaving {
				states = append(states, up+st.Peer.Node)
			}
		}})
		if st := c.State(); !st.Up || st.Peer != (wire.Info{Node: "n1", Version: "v1", Revision: wire.KnowsEpochs}) {
			t.Errorf("%+v", st)
		}
		decide(c, "a", 1)
		results := waiters(t, t.Context(), c, "a", 5)
		s.breaks()
		for range 5 {
			if err := <-results; !errors.Is(err, wire.ErrUnavailable) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := owner.Waiting(); n != 0 {
			t.Errorf("%d wait for callers whose connection is broken", n)
		}
		began := time.Now()
		if _, err := decide(c, "b", 1); !errors.Is(err, wire.ErrUnavailable) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if st := c.Stats(); st.State.Up || st.State.Err == nil || st.Failures != 6 || st.Connects != 1 || st.Requests != 6 {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Minute)
		s.network.Repair()
		time.Sleep(3 * time.Second)
		if v, err := decide(c, "b", 1); err != nil || !v.OK {
			t.Errorf("%+v %v", v, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if n := len(states); n < 3 || states[0] != "up n1" || states[1] != "down n1" || states[n-1] != "up n1" {
			t.Errorf("%q", states)
		}
	})
}

// A peer that is silent is found out within Config.Silence, and the owner finds out that its peer is
// silent.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s, c := newSlowSite(t)
		time.Sleep(time.Minute) // pings keep the connection
		if st := c.Stats(); !st.State.Up || st.Connects != 1 || st.Latency == 0 {
			t.Errorf("%+v", st)
		}
		decide(c, "a", 1)
		results := waiters(t, t.Context(), c, "a", 1)
		s.network.Silence()
		began := time.Now()
		if err := <-results; !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
		if d := time.Since(began); d < time.Second || d > 1500*time.Millisecond {
			t.Errorf("noticed after %v", d)
		}
		time.Sleep(time.Second)
		if st := c.Stats(); st.Connects != 2 || !st.State.Up {
			t.Errorf("%+v", st)
		}
	})
}

// Requests of a connection wait in the order in which they were made, also if they come at once.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s, c := newSlowSite(t)
		first, err := c.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: 1})
		if err != nil {
			t.Fatal(err)
		}
		var places [50]int
		var mu sync.Mutex
		var leases []int // in the order in which they are granted
		var wg sync.WaitGroup
		release := s.network.Hold()
		for i := range places {
			wg.Go(func() {
				if i%2 == 0 {
					l, err := c.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: 1, TTL: time.Second, Wait: true})
					mu.Lock()
					leases = append(leases, i)
					mu.Unlock()
					if err := errors.Join(err, c.Return(t.Context(), "a", l.ID, weir.Success)); err != nil {
						t.Error(err)
					}
					return
				}
				var v decider.Verdict
				if err := c.Wait(t.Context(), &decider.Request{Key: "a", N: 1}, &v); err != nil || !v.OK {
					t.Errorf("%+v %v", v, err)
				}
				places[i] = v.Place
			})
			synctest.Wait()
		}
		release()
		synctest.Wait()
		if n := s.Stats().Waiting; n != len(places) {
			t.Errorf("%d wait", n)
		}
		if err := c.Return(t.Context(), "a", first.ID, weir.Success); err != nil {
			t.Error(err)
		}
		wg.Wait()
		for i, place := range places {
			if i%2 == 1 && place != i/2 {
				t.Errorf("%v", places)
				break
			}
		}
		if !slices.IsSorted(leases) {
			t.Errorf("%v", leases)
		}
	})
}

// A Handler that leaves ends what has begun, and Clients send it nothing more.
func TestLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s, c := newSlowSite(t)
		results := waiters(t, t.Context(), c, "a", 2)
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			ended <- s.Shutdown(ctx)
		}()
		synctest.Wait()
		if st := c.State(); st.Up || !st.Leaving {
			t.Errorf("%+v", st)
		}
		if _, err := decide(c, "b", 1); !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if st := c.State(); st.Up || !st.Leaving {
			t.Errorf("%+v: want it to know, after it was refused again", st)
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		began := time.Now()
		if err := <-ended; err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if st := s.Stats(); st.Conns != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Shutdown cuts off what takes too long.
func TestShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{Decider: newServer(t, server.Config{}, slow())})
		c := s.dial(peer.Config{})
		decide(c, "a", 1)
		results := waiters(t, t.Context(), c, "a", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
		if err := <-results; !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// Too many requests that wait are denied by the owner.
func TestFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{Decider: newServer(t, server.Config{}, slow()), MaxWaiting: 5})
		c := s.dial(peer.Config{})
		decide(c, "a", 1)
		results := waiters(t, t.Context(), c, "a", 5)
		if _, err := c.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: 1, Wait: true}); !errors.Is(err, weir.Reject(weir.QueueFull, 0)) {
			t.Error(err)
		}
		for range 1000 {
			var v decider.Verdict
			if err := c.Wait(t.Context(), &decider.Request{Key: "a", N: 1}, &v); err != nil || v.OK || v.Reason != weir.QueueFull {
				t.Fatalf("%+v %v", v, err)
			}
		}
		if st := s.Stats(); st.Waiting != 5 || st.Busy != 1001 {
			t.Errorf("%+v", st)
		}
		if v, err := decide(c, "b", 1); err != nil || !v.OK {
			t.Errorf("%+v %v", v, err)
		}
		for range 5 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// Too many or too large requests on a connection are refused by the Client.
func TestBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{Decider: newServer(t, server.Config{}, slow())})
		c := s.dial(peer.Config{MaxCalls: 2, MaxBytes: 1000})
		decide(c, "a", 1)
		if _, err := decide(c, strings.Repeat("a", 1000), 1); err != wire.ErrBusy {
			t.Error(err)
		}
		results := waiters(t, t.Context(), c, "a", 3)
		if err := <-results; err != wire.ErrBusy {
			t.Error(err)
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if _, err := decide(c, "a", 1); err != nil {
			t.Error(err)
		}
	})
}

// A Client with two connections goes on with one.
func TestTwoConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{Decider: newServer(t, server.Config{}, slow())})
		c := s.dial(peer.Config{Conns: 2})
		if n := s.Stats().Conns; n != 2 {
			t.Errorf("%d connections", n)
		}
		s.network.Refuse()
		s.network.Conns()[0].Close()
		synctest.Wait()
		for range 10 {
			if _, err := decide(c, "a", 1); err != nil {
				t.Error(err)
			}
		}
		s.network.Repair()
		time.Sleep(3 * time.Second)
		if n := s.Stats().Conns; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// Close fails what has no answer.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{Decider: newServer(t, server.Config{}, slow())})
		c := s.dial(peer.Config{})
		decide(c, "a", 1)
		results := waiters(t, t.Context(), c, "a", 1)
		c.Close()
		if err := <-results; !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
		if _, err := decide(c, "a", 1); !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// After Redial, a Client connects at once: also if it has just begun an attempt that gets no answer.
func TestRedial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, serve.Config{})
		var silent atomic.Bool
		silent.Store(true)
		c, err := peer.New(peer.Config{URL: "http://weir", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if silent.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.network.Dial(ctx, network, address)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wait := func(d time.Duration, up bool) {
			t.Helper()
			if time.Sleep(d); c.State().Up != up {
				t.Errorf("up: %v, want %v", c.State().Up, up)
			}
		}
		wait(time.Second, false)
		silent.Store(false)
		wait(time.Second, false)
		c.Redial()
		wait(time.Millisecond, true)
		s.breaks()
		wait(time.Minute, false) // the pauses are long
		s.network.Repair()
		c.Redial()
		wait(time.Millisecond, true)
	})
}
