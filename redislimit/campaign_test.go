//go:build system

package redislimit_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

var campaign = flag.Duration("campaign", 5*time.Second, "how long each part of TestCampaign kills instances and the store")

// campaignTTL is the time to live of the lock of TestCampaign.
const campaignTTL = time.Second

func campaignLimits(t *testing.T, addr string) (*redislimit.Limiter, *redislimit.Leases) {
	rdb := impatient(t, addr)
	l := limiter(t, rdb, gcra.Per(redistest.TrialRate, time.Second, redistest.TrialBurst), redislimit.Config{
		Away: redislimit.Share, Instances: redistest.TrialInstances, MaxWait: time.Second,
	})
	return l, leases(t, rdb, 1, redislimit.LeaseConfig{Away: redislimit.Deny, Instances: redistest.TrialInstances, TTL: campaignTTL})
}

// TestCampaignInstance is an instance of TestCampaign: it takes tokens and holds a lock,
// until it is killed.
func TestCampaignInstance(t *testing.T) {
	addr, report := redistest.InstanceOf(t)
	l, locks := campaignLimits(t, addr)
	ctx := context.Background()
	for range 2 {
		go func() {
			for {
				asked := time.Now()
				d, err := l.Take(ctx, "key", 1)
				if err != nil {
					report("error %v", err)
				}
				report("take %d %d %v %v", asked.UnixNano(), time.Since(asked), d.OK, d.Step)
				time.Sleep(5 * time.Millisecond)
			}
		}()
		go func() {
			for {
				h, err := locks.Hold(ctx, "lock", 1)
				if err != nil {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				report("hold %d %d", h.Token, time.Now().UnixNano())
				work := rand.N(60 * time.Millisecond)
				if rand.N(5) == 0 {
					work = rand.N(2 * campaignTTL)
				}
				select {
				case <-h.Done():
				case <-time.After(work):
				}
				report("free %d %d", h.Token, time.Now().UnixNano())
				h.Release(weir.Success)
			}
		}()
	}
	select {}
}

// Instances and their store are killed at random: the lock has never two holders for longer
// than docs/redis.md says, no more tokens are granted than it says, and everything is available
// again within a period.
func TestCampaign(t *testing.T) {
	t.Run("synced", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "redis-server", "--appendonly", "yes", "--appendfsync", "always")
		r := kill(t, server)
		r.CheckHolds(t, redislimit.DefaultTimeout) // for instances that stall
		r.CheckTokens(t, 2)
		checkBack(t, server)
	})
	t.Run("forgetful", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "redis-server")
		r := kill(t, server)
		r.CheckHolds(t, campaignTTL)
		r.CheckTokens(t, 3)
		checkBack(t, server)
	})
}

// A record has what the instances of a campaign have reported.
type record struct{ redistest.Campaign }

// add adds the report of an instance that was killed.
func (r *record) add(t *testing.T, p *redistest.Instance) {
	t.Helper()
	open := map[uint64]time.Duration{} // holds by token
	for _, line := range p.Kill() {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "take":
			var a redistest.Answer
			var asked int64
			if n, _ := fmt.Sscan(rest, &asked, (*int64)(&a.Took), &a.Granted, &a.Step); n == 4 { // the last line may be cut
				a.Asked = r.since(asked)
				r.Answers = append(r.Answers, a)
			}
		case "hold", "free":
			var token uint64
			var at int64
			if n, _ := fmt.Sscan(rest, &token, &at); n < 2 {
				continue
			}
			if word == "hold" {
				open[token] = r.since(at)
			} else {
				r.Holds = append(r.Holds, redistest.Hold{Token: token, From: open[token], Until: r.since(at)})
				delete(open, token)
			}
		default:
			t.Error(line)
		}
	}
	for token, from := range open {
		r.Holds = append(r.Holds, redistest.Hold{Token: token, From: from, Until: p.Killed.Sub(r.Began)})
	}
}

func (r *record) since(unixNano int64) time.Duration { return time.Unix(0, unixNano).Sub(r.Began) }

// kill kills instances and their server, and starts them again.
func kill(t *testing.T, server *redistest.Server) *record {
	r := &record{redistest.Campaign{Began: time.Now()}}
	start := func() *redistest.Instance { return redistest.StartInstance(t, "TestCampaignInstance", server.Addr) }
	var instances [redistest.TrialInstances]*redistest.Instance
	for i := range instances {
		instances[i] = start()
	}
	r.Run(server, *campaign, func(i int) {
		r.add(t, instances[i])
		instances[i] = start()
	})
	time.Sleep(campaignTTL)
	for _, p := range instances {
		r.add(t, p)
	}
	return r
}

// checkBack checks that nothing stays in use for longer than a period.
func checkBack(t *testing.T, server *redistest.Server) {
	l, locks := campaignLimits(t, server.Addr)
	reach(t, l, "key", redislimit.Exact)
	if d := take(t, l, "key", 0); d.ResetAfter > 2*time.Second*redistest.TrialBurst/redistest.TrialRate { // a burst, and as much debt
		t.Errorf("the bucket is full after %v", d.ResetAfter)
	}
	redistest.Until(t, "the lock is free", func() error {
		h, err := locks.Hold(context.Background(), "lock", 1)
		if err == nil {
			h.Release(weir.Success)
		}
		return err
	})
}
