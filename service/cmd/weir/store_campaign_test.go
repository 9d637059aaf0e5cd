//go:build system

package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

var campaign = flag.Duration("campaign", 8*time.Second, "how long TestStoreCampaign kills processes and the store")

const lockTTL = 500 * time.Millisecond

var campaignRules = fmt.Sprintf(`rules:
  - {name: tokens, key: tokens, rate: %d/s, burst: %d}
  - {name: lock, key: lock, away: deny, concurrency: {limit: 1, ttl: %v, max_ttl: %[3]v}}
`, redistest.TrialRate, redistest.TrialBurst, lockTTL)

// Three processes and their store are killed at random, under load. The lock has never two
// holders, no more tokens are granted than docs/redis.md says, and everything is available again
// within a period. For longer:
//
//	go test -tags system -run TestStoreCampaign ./cmd/weir -campaign 10m -timeout 0 -v
func TestStoreCampaign(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, "redis-server", "--appendonly", "yes", "--appendfsync", "always")
	f := startStoreFleet(t, "redis://"+store.Addr, campaignRules)
	load := redistest.StartLoad(2*redistest.TrialInstances, 5*time.Millisecond, func(caller int) (bool, string, error) {
		return f.take(caller%redistest.TrialInstances, "/rate/tokens")
	})
	c := redistest.Campaign{Began: load.Began}
	stop := f.holders(&c)
	c.Run(store, *campaign, func(i int) {
		f.processes[i].kill()
		f.processes[i] = f.start[i]()
	})
	for i := range f.urls {
		f.untilExact(i, "/rate/tokens")
	}
	stop()
	if err := load.Stop(); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Second * redistest.TrialBurst / redistest.TrialRate) // for a burst, and as much debt
	if granted, step, err := f.take(0, fmt.Sprint("/rate/tokens?n=", redistest.TrialBurst)); !granted {
		t.Errorf("the whole burst: %v, %s, %v: want it to be back", granted, step, err)
	}
	redistest.Until(t, "the lock is free", func() error {
		if _, ok := f.lease(0, "/lease/lock"); !ok {
			return fmt.Errorf("no lease")
		}
		return nil
	})
	c.Answers = slices.DeleteFunc(load.Answers(0, time.Hour), func(a redistest.Answer) bool { return a.Step == "" })
	c.CheckHolds(t, 0)
	c.CheckTokens(t, 2)
}

// holders hold the lock in turns, until stop is called.
func (f *storeFleet) holders(c *redistest.Campaign) (stop func()) {
	ended := make(chan struct{})
	var mu sync.Mutex // of the holds
	var all sync.WaitGroup
	for i := range 2 * len(f.urls) {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if h, ok := f.hold(i%len(f.urls), c.Began); ok {
					mu.Lock()
					c.Holds = append(c.Holds, h)
					mu.Unlock()
				}
			}
		})
	}
	return func() { close(ended); all.Wait() }
}

// hold holds the lock for some time. A holder has it for its time to live after it has sent the
// last request that was answered.
func (f *storeFleet) hold(instance int, began time.Time) (h redistest.Hold, ok bool) {
	sent := time.Now()
	l, ok := f.lease(instance, "/lease/lock")
	if !ok {
		return h, false
	}
	h = redistest.Hold{Token: l.Token, From: time.Since(began)}
	until, work := sent.Add(lockTTL), rand.N(60*time.Millisecond)
	if rand.N(5) == 0 {
		work = rand.N(3 * lockTTL)
	}
	path := "/lease/lock/" + l.ID
	for end := time.Now().Add(work); time.Now().Before(end) && time.Now().Before(until); {
		time.Sleep(min(time.Until(end), lockTTL/5))
		instance = (instance + 1) % len(f.urls) // every process renews the leases of all
		sent := time.Now()
		switch a := f.ask(instance, "POST", path); a.status {
		case 200:
			until = sent.Add(lockTTL)
		case 404:
			end = time.Now()
		}
	}
	if time.Now().Before(until) {
		until = time.Now()
	}
	h.Until = until.Sub(began)
	for range f.urls {
		if a := f.ask(instance, "DELETE", path); a.status != 0 && a.status < 500 {
			break
		}
		instance = (instance + 1) % len(f.urls)
	}
	return h, true
}
