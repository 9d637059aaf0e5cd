//go:build system

package main

import (
	"context"
	"flag"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
)

// leavesCampaign runs the tests of leaves for as long as their acceptance says.
var leavesCampaign = flag.Bool("leaves.campaign", false, "leaves go on for a minute without their upstream, and must use 98 % of the limit")

const (
	leafCount = 20
	leafLimit = 4000 // a second
	leafSlot  = 100 * time.Millisecond
	leafTick  = 10 * time.Millisecond
)

// A leafFleet is leaves that share a limit, with their demand: twice the limit, unequal.
type leafFleet struct {
	t       *testing.T
	began   time.Time
	leaves  [leafCount]*client.Client
	wants   [leafCount]float64
	factor  [leafCount]atomic.Int64
	stalls  stalls
	running sync.WaitGroup
	mu      sync.Mutex // guards allowed
	allowed [leafCount][]int
}

func newLeafFleet(t *testing.T, url string) *leafFleet {
	f := &leafFleet{t: t, began: time.Now()}
	sum := 0.0
	for i := range f.wants {
		f.wants[i] = math.Pow(float64(i+1), -0.8)
		sum += f.wants[i]
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		f.running.Wait()
	})
	for i := range f.leaves {
		f.wants[i] *= 2 * leafLimit / sum
		f.factor[i].Store(1)
		c, err := client.New(client.Config{URL: url, Away: client.Local, Instances: leafCount, Leaf: &client.LeafConfig{}})
		fatal(t, err)
		f.leaves[i] = c
		f.running.Go(func() {
			defer c.Close()
			f.demand(ctx, i)
		})
	}
	return f
}

// demand makes the requests of a leaf. Late requests are made, too.
func (f *leafFleet) demand(ctx context.Context, i int) {
	tick := time.NewTicker(leafTick)
	defer tick.Stop()
	due, last := 0.0, time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		before := last
		due, last = due+f.wants[i]*float64(f.factor[i].Load())*now.Sub(last).Seconds(), now
		n := 0
		for ; due >= 1; due-- {
			if d, err := f.leaves[i].Take(ctx, "api", 1); err == nil && d.OK {
				n++
			}
		}
		f.stalls.note(max(last.Sub(before), time.Since(last)))
		f.count(i, n)
	}
}

func (f *leafFleet) count(i, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot := int(time.Since(f.began) / leafSlot)
	for len(f.allowed[i]) <= slot {
		f.allowed[i] = append(f.allowed[i], 0)
	}
	f.allowed[i][slot] += n
}

// given returns what a leaf, or all if i < 0, was allowed from a slot on, in each slot.
func (f *leafFleet) given(i, from int) (slots []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := int(time.Since(f.began) / leafSlot)
	slots = make([]int, max(now-from, 0))
	for leaf := range f.allowed {
		for at, n := range f.allowed[leaf] {
			if (i < 0 || leaf == i) && at >= from && at < now {
				slots[at-from] += n
			}
		}
	}
	return slots
}

// share returns the max-min fair share of a leaf.
func (f *leafFleet) share(i int) float64 {
	wants := f.wants
	for k := range wants {
		wants[k] *= float64(f.factor[k].Load())
	}
	want := wants[i]
	slices.Sort(wants[:])
	left := float64(leafLimit)
	for k, w := range wants {
		if part := left / float64(leafCount-k); w > part {
			return min(want, part)
		}
		left -= w
	}
	return want
}

func (f *leafFleet) slot() int { return int(time.Since(f.began) / leafSlot) }

// stalled returns the longest stall since a slot began, and the time in which there was one.
func (f *leafFleet) stalled(from int) (longest, sum time.Duration) {
	return f.stalls.since(f.began.Add(time.Duration(from) * leafSlot))
}

// keeps checks that no window of slots, from one on, has more than the limit, and 1 %, in any span up to 10 s.
// Requests of a stalled leaf are counted at the end of the stall.
func (f *leafFleet) keeps(what string, first int, slots []int, burst int) {
	f.t.Helper()
	longest, _ := f.stalled(first)
	for from := range slots {
		sum := 0
		for to := from; to < min(from+100, len(slots)); to++ {
			sum += slots[to]
			// A slot is counted when its requests are done: it may have those of the one before.
			if most := 1.01*float64(burst) + 1.01*leafLimit*(float64(to-from+2)*leafSlot.Seconds()+longest.Seconds()); float64(sum) > most {
				f.t.Fatalf("%s: %d in %d slots of 100 ms, want at most %.0f", what, sum, to-from+1, most)
			}
		}
	}
}

func sumOf(slots []int) (n int) {
	for _, k := range slots {
		n += k
	}
	return n
}

// Twenty leaves share a limit of a real server: with a steady demand, after one leaf wants 15 times
// as much, and while the server is dead.
func TestTwentyLeaves(t *testing.T) {
	t.Parallel()
	steady, dead, least := 5*time.Second, 8*time.Second, 0.85
	if *leavesCampaign {
		steady, dead, least = 20*time.Second, time.Minute, 0.98
	}
	rules := file(t, "rules.yaml", `rules: [{name: api, key: api, rate: 4000/s, away: share}]`)
	up := startProcess(t, binary(t), "--rules", rules, "--assignment-ttl", "2s")
	f := newLeafFleet(t, up.public)
	time.Sleep(6 * time.Second) // it learns for 2 s

	from := f.slot()
	time.Sleep(steady)
	slots := f.given(-1, from)
	f.keeps("steady", from, slots, leafLimit)
	_, lost := f.stalled(from)
	least *= max(1-lost.Seconds()/steady.Seconds(), 0.5)
	if used := float64(sumOf(slots)) / (leafLimit * leafSlot.Seconds() * float64(len(slots))); used < least {
		t.Errorf("%.3f of the limit is used, want %v", used, least)
	} else {
		t.Logf("%.4f of the limit is used", used)
	}

	const jumper = 12
	f.factor[jumper].Store(15)
	share, served := f.share(jumper), time.Duration(0)
	for at := f.slot(); ; time.Sleep(leafSlot) {
		slots := f.given(jumper, at)
		// In the first second, it uses the tokens of its bucket.
		if n := len(slots); n >= 20 && float64(sumOf(slots[n-10:])) >= 0.9*share {
			served = time.Duration(n-10) * leafSlot
			break
		}
		if len(slots) > 150 {
			t.Fatalf("the leaf that wants 15 times as much is not served: %v", slots)
		}
	}
	t.Logf("a demand 15 times as high is served after %v", served)
	f.factor[jumper].Store(1)
	time.Sleep(2 * time.Second)

	from = f.slot()
	up.kill()
	time.Sleep(dead)
	slots = f.given(-1, from)
	f.keeps("dead", from, slots, leafLimit)
	_, lost = f.stalled(f.slot() - 20)
	if n := sumOf(slots[len(slots)-20:]); float64(n) < leafLimit/2*max(1-lost.Seconds()/2, 0.5) {
		t.Errorf("%d were allowed in the last 2 s of %v without the upstream: want safe shares of %d a second", n, dead, leafLimit)
	}
}
