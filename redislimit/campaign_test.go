//go:build external

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

// The limits of TestCampaign, of three instances.
const (
	campaignInstances = 3
	campaignRate      = 100 // per second
	campaignBurst     = 42
	campaignTTL       = time.Second
)

func campaignLimits(t *testing.T, addr string) (*redislimit.Limiter, *redislimit.Leases) {
	rdb := impatient(t, addr)
	l := limiter(t, rdb, gcra.Per(campaignRate, time.Second, campaignBurst), redislimit.Config{
		Away: redislimit.Share, Instances: campaignInstances, MaxWait: time.Second,
	})
	return l, leases(t, rdb, 1, redislimit.LeaseConfig{Away: redislimit.Deny, Instances: campaignInstances, TTL: campaignTTL})
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
		r.checkHolds(t, redislimit.DefaultTimeout) // for instances that stall
		r.checkTokens(t, 2)
		checkBack(t, server)
	})
	t.Run("forgetful", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "redis-server")
		r := kill(t, server)
		r.checkHolds(t, campaignTTL)
		r.checkTokens(t, 3)
		checkBack(t, server)
	})
}

// A record has what the instances of a campaign have reported.
type record struct {
	began    time.Time
	answers  redistest.Answers
	holds    []redistest.Hold
	absences []absence // the first is none
}

// An absence is one of the store.
type absence struct {
	from, until time.Duration // since the campaign began
	restarts    int           // of instances, until the next absence
}

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
				r.answers = append(r.answers, a)
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
				r.holds = append(r.holds, redistest.Hold{Token: token, From: open[token], Until: r.since(at)})
				delete(open, token)
			}
		default:
			t.Error(line)
		}
	}
	for token, from := range open {
		r.holds = append(r.holds, redistest.Hold{Token: token, From: from, Until: p.Killed.Sub(r.began)})
	}
}

func (r *record) since(unixNano int64) time.Duration { return time.Unix(0, unixNano).Sub(r.began) }

// kill kills instances and their server, and starts them again.
func kill(t *testing.T, server *redistest.Server) *record {
	r := &record{began: time.Now(), absences: make([]absence, 1)}
	start := func() *redistest.Instance { return redistest.StartInstance(t, "TestCampaignInstance", server.Addr) }
	var instances [campaignInstances]*redistest.Instance
	for i := range instances {
		instances[i] = start()
	}
	for time.Since(r.began) < *campaign {
		time.Sleep(200*time.Millisecond + rand.N(800*time.Millisecond))
		if i := rand.N(campaignInstances + 1); i < campaignInstances {
			r.add(t, instances[i])
			instances[i] = start()
			r.absences[len(r.absences)-1].restarts++
			continue
		}
		from := time.Since(r.began)
		server.Kill()
		time.Sleep(rand.N(600 * time.Millisecond))
		server.Run()
		r.absences = append(r.absences, absence{from: from, until: time.Since(r.began)})
	}
	time.Sleep(campaignTTL)
	for _, p := range instances {
		r.add(t, p)
	}
	return r
}

// checkHolds checks for how long a lock had two holders.
func (r *record) checkHolds(t *testing.T, most time.Duration) {
	overlap, backward := redistest.Overlap(r.holds)
	t.Logf("%d holds of the lock, the longest overlap %v", len(r.holds), overlap)
	if overlap > most || backward > 0 || len(r.holds) == 0 {
		t.Errorf("%d holds, an overlap of %v, %d tokens that go back", len(r.holds), overlap, backward)
	}
}

// checkTokens checks each time from one absence to the next, for a number of bursts and for the
// shares of instances that have started. Until all instances know that the store is back, their
// shares come in addition to its decisions.
func (r *record) checkTokens(t *testing.T, bursts float64) {
	for i, a := range r.absences {
		end := 1000 * time.Hour
		if i+1 < len(r.absences) {
			end = r.absences[i+1].from
		}
		var answers, degraded redistest.Answers
		for _, answer := range r.answers {
			if answer.Asked < a.from || answer.Asked >= end {
				continue
			}
			answers = append(answers, answer)
			if answer.Step != "exact" && answer.Asked > a.until {
				degraded = append(degraded, answer)
			}
		}
		apart := 3*redislimit.DefaultTimeout + degraded.Covered(redislimit.DefaultTimeout)
		most := campaignBurst*(bursts+float64(a.restarts)/campaignInstances) + campaignRate*apart.Seconds()*(campaignInstances-1)/campaignInstances
		excess := answers.Excess(campaignRate)
		t.Logf("away from %v to %v, %d restarts: %d answers, the slowest after %v: %.1f tokens beyond the rate, at most %.1f",
			a.from, a.until, a.restarts, len(answers), answers.Took(1), excess, most)
		if excess > most {
			t.Errorf("%.1f tokens beyond the rate, want at most %.1f", excess, most)
		}
	}
	t.Logf("in the whole campaign, %.1f tokens beyond the rate", r.answers.Excess(campaignRate))
}

// checkBack checks that nothing stays in use for longer than a period.
func checkBack(t *testing.T, server *redistest.Server) {
	l, locks := campaignLimits(t, server.Addr)
	reach(t, l, "key", redislimit.Exact)
	if d := take(t, l, "key", 0); d.ResetAfter > 2*time.Second*campaignBurst/campaignRate { // a burst, and as much debt
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
