package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafset"
	"github.com/weir-go/weir/service/internal/upstream"
)

// leaves are leaves with their load.
type leaves struct {
	sets      []*leafset.Set
	counters  []*counter
	decisions atomic.Uint64
	running   sync.WaitGroup
	end       context.CancelFunc
}

// A counter counts what a leaf tells its upstream.
type counter struct {
	*upstream.Client
	exchanges, reports, failed atomic.Uint64
}

// Exchange counts and sends an exchange.
func (c *counter) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	c.exchanges.Add(1)
	c.reports.Add(uint64(len(x.Reports)))
	a, err := c.Client.Exchange(ctx, x)
	if err != nil {
		c.failed.Add(1)
	}
	return a, err
}

// exchangeTimeout is longer than the default: the processors are busy with the load.
const exchangeTimeout = 10 * time.Second

func startLeaves(ctx context.Context, s *setting, url string) (*leaves, error) {
	ctx, end := context.WithCancel(ctx)
	all := &leaves{end: end}
	names := make([]string, s.keys)
	for i := range names {
		names[i] = fmt.Sprintf("key-%d", i)
		if i < s.hot {
			names[i] = fmt.Sprintf("hot-%d", i)
		}
	}
	for i := range s.leaves {
		client, err := upstream.New(upstream.Config{URL: url, Timeout: exchangeTimeout})
		if err != nil {
			end()
			return nil, err
		}
		c := &counter{Client: client}
		set, err := leafset.New(leafset.Config{
			Config: leaf.Config{Name: fmt.Sprintf("leaf-%d", i), MaxKeys: 2 * s.keys, Overdue: exchangeTimeout}, Upstream: c, Timeout: exchangeTimeout,
		})
		if err != nil {
			end()
			return nil, err
		}
		all.sets, all.counters = append(all.sets, set), append(all.counters, c)
		all.running.Go(func() { all.load(ctx, s, set, names, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	return all, nil
}

// load decides about each key once a second.
func (l *leaves) load(ctx context.Context, s *setting, set *leafset.Set, names []string, rnd *rand.Rand) {
	began, made := time.Now(), 0
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for policy := new(leaf.Policy); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		due := int(time.Since(began).Seconds() * float64(len(names)))
		if late := due - made - len(names)/10; late > 0 { // it does not catch up
			began, due = began.Add(time.Duration(float64(late)/float64(len(names))*float64(time.Second))), due-late
		}
		for i := made; i < due; i++ {
			key := i % len(names)
			if s.random {
				key = rnd.IntN(len(names))
			}
			set.Take(names[key], 1, policy)
		}
		l.decisions.Add(uint64(due - made))
		made = due
	}
}

func (l *leaves) stop() {
	l.end()
	l.running.Wait()
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	for _, set := range l.sets {
		_ = set.Close(ctx) // the upstream ends, too
	}
}
