package server_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func TestTop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(5, time.Hour, "")))
		for i, n := range []int{3, 20, 8, 5} {
			d.allows(fmt.Sprint("k", i), min(n, 5), n)
		}
		top := d.Top(2)
		if len(top) != 2 || top[0].Key != "k1" || top[0].Denied != 15 || top[1].Key != "k2" || top[1].Denied != 3 {
			t.Errorf("two of four: %+v", top)
		}
		top = d.Top(10)
		if len(top) != 4 || top[0].Key != "k1" || top[3].Key != "k0" || top[3].Allowed != 3 || top[3].Rules[0].Name != "r" {
			t.Errorf("asked for most: %+v", top)
		}
	})
}

// A search for keys ends when its caller has left: after a reload, it matches each key
// against each regex.
func TestTopOfACallerThatLeaves(t *testing.T) {
	d := newDesk(t, server.Config{}, one("r", quota(5, time.Hour, "")))
	for i := range 100 {
		d.allows(fmt.Sprint("k", i), 1, 1)
	}
	caller := &leaving{t.Context(), 10}
	if keys, err := d.Server.Top(caller, 10); err != context.Canceled || keys != nil || caller.looks != -1 {
		t.Errorf("%d keys, %v, after %d more looks: want the context's error at once", len(keys), err, -1-caller.looks)
	}
}

// TestKeysThatComeAtOnce: of the first requests for a key, each counts.
func TestKeysThatComeAtOnce(t *testing.T) {
	const keys, callers = 2000, 4
	d := newDesk(t, server.Config{}, one("r", quota(2*callers, time.Hour, "")))
	var all sync.WaitGroup
	var asked [keys]atomic.Int32
	for range callers {
		all.Go(func() {
			var v decider.Verdict
			for k := range keys {
				for asked[k].Add(1); asked[k].Load() < callers; runtime.Gosched() { // until all are there
				}
				d.Decide(&decider.Request{Key: fmt.Sprint(k), N: 1}, &v)
			}
		})
	}
	all.Wait()
	for _, k := range d.Top(keys) {
		if k.Allowed != callers {
			t.Errorf("%s: %d", k.Key, k.Allowed)
		}
	}
}

// TestHotKeysAreRememberedInAFlood: a flood of keys that come once does not replace
// frequent keys, and the number of remembered keys is bounded.
func TestHotKeysAreRememberedInAFlood(t *testing.T) {
	d := newDesk(t, server.Config{Keys: 1024}, one("r", quota(1, time.Hour, "")))
	for i := range 50_000 {
		d.ask(fmt.Sprint("flood", i), 1)
		if i%50 == 0 {
			for k := range 10 {
				d.ask(fmt.Sprint("hot", k), 1)
			}
		}
	}
	for i, k := range d.Top(10) {
		if k.Key[:3] != "hot" || k.Denied < 800 {
			t.Errorf("%d: %q was denied %d times", i, k.Key, k.Denied)
		}
	}
	if n := len(d.Top(1 << 20)); n > 1024 {
		t.Errorf("%d keys are remembered", n)
	}
}

// TestRulesThatAreGoneHoldNoMemory: keys remember their rules, but not beyond a
// reload.
func TestRulesThatAreGoneHoldNoMemory(t *testing.T) {
	d := newDesk(t, server.Config{Memory: 16 << 20, Keys: 4096}, one("r0", quota(10, time.Hour, "")))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	fill := func(i int) {
		for k := range 5_000 {
			d.ask(fmt.Sprint(i, "-", k), 1)
		}
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{one(fmt.Sprint("r", i), quota(10, time.Hour, ""))}}))
	}
	for i := range 10 {
		fill(-i)
	}
	before := heap()
	for i := range 10 {
		fill(i + 1)
	}
	if grown := int64(heap()) - int64(before); grown > 500<<10 {
		t.Errorf("10 reloads later there are %d bytes more", grown)
	}
	runtime.KeepAlive(d.Server)
}

func TestKeysUnderReloads(t *testing.T) {
	d := newDesk(t, server.Config{Keys: 64}, one("r0", quota(10, time.Hour, "")))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var v decider.Verdict
			for i := range 5000 {
				d.Decide(&decider.Request{Key: fmt.Sprint("k", i*g%300), N: 1}, &v)
				if i%500 == 0 {
					if err := d.Reload(&config.Rules{Rules: []config.Rule{one(fmt.Sprint("r", i%3), quota(10, time.Hour, ""))}}); err != nil {
						t.Error(err)
					}
					d.Top(5)
				}
			}
		})
	}
	wg.Wait()
}
