package server_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// grant takes n tokens of "a", and returns the id.
func (d desk) grant(n int) string {
	d.t.Helper()
	var v decider.Verdict
	d.Decide(&decider.Request{Key: "a", N: n, WantID: true}, &v)
	if !v.OK {
		d.t.Fatalf("not granted: %+v", v)
	}
	return string(d.AppendGrantID(nil, v.Grant, "a"))
}

// left returns the tokens that "a" has.
func (d desk) left() int { return d.ask("a", 0).Answers[0].Remaining }

func TestWhatIsNoGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(100, time.Hour, "")))
		other := newDesk(t, server.Config{}, one("r", quota(100, time.Hour, "")))
		id, large := d.grant(1), d.grant(12)
		for _, tt := range []struct{ rule, key, id string }{
			{"another key's", "b", id},
			{"another server's", "a", other.grant(1)},
			{"nothing", "a", ""},
			{"not a UUID", "a", "hello"},
			{"another UUID", "a", "550e8400-e29b-41d4-a716-446655440000"},
			{"a cost that it does not have", "a", id + "-2"},
			{"nor this one", "a", large + "0"},
			{"a cost of one is not said", "a", id + "-1"},
			{"nor without the cost", "a", large[:36]},
			{"a changed digit", "a", flip(id)},
			{"a longer one", "a", id + "0"},
			{"without hyphens", "a", regexp.MustCompile("-").ReplaceAllString(id, "")},
		} {
			if _, err := d.Settle(tt.key, tt.id, 0); !errors.Is(err, decider.ErrNoGrant) {
				t.Errorf("%s: %v", tt.rule, err)
			}
		}
		check(t, "left", d.left(), 87)
		time.Sleep(decider.GrantLife + time.Millisecond)
		if _, err := d.Settle("a", large, 0); !errors.Is(err, decider.ErrNoGrant) {
			t.Errorf("too old: %v", err)
		}
	})
}

func flip(id string) string {
	b := []byte(id)
	b[35] ^= 1
	return string(b)
}

func TestIDsAreUUIDs(t *testing.T) {
	d := newDesk(t, server.Config{}, one("r", quota(1_000_000, time.Hour, "")))
	form := regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
	seen := map[string]bool{}
	for range 10_000 {
		id := d.grant(1)
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%s (seen before: %v)", id, seen[id])
		}
		seen[id] = true
	}
}

// A settlement changes the counts of a rule in shadow mode if that would have given.
func TestShadowRulesSettle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := []config.Rule{one("enforced", quota(100, time.Hour, ""))}
		for i := range 6 {
			r := one(fmt.Sprint("shadow ", i), quota(10, time.Hour, ""))
			r.Mode = config.Shadow
			rules = append(rules, r)
		}
		d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Rules: rules}})
		first, second := d.grant(7), d.grant(7) // the shadow rules would deny the second
		shadowed := func(want ...uint64) {
			t.Helper()
			var got []uint64
			for _, r := range d.Stats().Rules[1:] {
				got = append(got, r.Shadowed)
			}
			check(t, "shadowed", fmt.Sprint(got), fmt.Sprint(want))
		}
		shadowed(1, 1, 1, 1, 1, 1)
		for _, id := range []string{first, second} {
			got, err := d.Settle("a", id, 2)
			must(t, err)
			check(t, "settled", got, decider.Settlement{Was: 7, Charged: 2})
		}
		check(t, "left", d.left(), 96)
		d.ask("a", 8) // as many as the shadow rules have left
		shadowed(1, 1, 1, 1, 2, 2)
		d.ask("a", 1)
		shadowed(2, 2, 2, 2, 2, 2)
	})
}

// A candidate may come, change and go: the rule keeps its counts and its grants. A
// candidate that counts in the same way keeps its own counts.
func TestACandidateComesAndGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := one("r", quota(10, time.Hour, ""))
		d := newDesk(t, server.Config{}, r)
		id := d.grant(7)
		for _, tt := range []struct {
			candidate       *config.Quota
			allowed, denied uint64 // by candidates, until then
		}{
			{ptr(quota(2, time.Hour, config.Fixed)), 1, 0},
			{ptr(quota(1, time.Hour, config.Fixed)), 1, 1},
			{ptr(quota(1, time.Hour, "")), 2, 1},
			{nil, 2, 1},
		} {
			r.Candidate = tt.candidate
			must(t, d.Reload(&config.Rules{Rules: []config.Rule{r}}))
			check(t, "left", d.left(), 3)
			d.allows("b", 1, 1)
			st := d.Stats().Rules[0]
			check(t, "candidates", [2]uint64{st.TrialAllowed, st.TrialDenied}, [2]uint64{tt.allowed, tt.denied})
		}
		_, err := d.Settle("a", id, 0)
		must(t, err)
		check(t, "left at the end", d.left(), 10)
	})
}

func TestABadReloadChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		good, bad := one("r", quota(10, time.Hour, "")), one("bad", quota(10, time.Hour, ""))
		d := newDesk(t, server.Config{}, good)
		d.allows("a", 7, 7)
		bad.Glob, bad.Regex = "", "("
		good.Rate.Count = 1
		if err := d.Reload(&config.Rules{Rules: []config.Rule{good, bad}}); err == nil {
			t.Fatal("no error")
		}
		check(t, "left", d.left(), 3)
		check(t, "rules", len(d.Stats().Rules), 1)
		check(t, "reloads", d.Stats().Reloads, 1)
	})
}

// TestCancelledWaitReturnsTokens: a request that took tokens of one rule, waited for
// another and left, returns what the first rule still lacks, and no more.
func TestCancelledWaitReturnsTokens(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				each, total := one("each", quota(10, time.Second, a)), queued(quota(1, time.Hour, ""), 20)
				total.Name, total.Per = "total", config.PerRule
				d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Rules: []config.Rule{each, total}}})
				d.allows("other", 1, 1)
				ctx, leave := context.WithCancel(t.Context())
				for range 9 {
					d.queue(ctx, decider.Request{Key: "a", N: 1})
				}
				time.Sleep(10 * time.Second)
				leave()
				synctest.Wait()
				check(t, "left of each", d.Explain("a").Rules[0].Remaining, 10)
				check(t, "used of each", d.Explain("a").Rules[0].Used, 0)
			})
		})
	}
}

// TestAGrantOfTheFirstMillisecond: stamps are of whole milliseconds, and the rule
// may have come in the same.
func TestAGrantOfTheFirstMillisecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(10, time.Hour, config.Fixed)))
		time.Sleep(300 * time.Microsecond)
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{one("s", quota(10, time.Hour, config.Fixed))}}))
		id := d.grant(4)
		time.Sleep(100 * time.Microsecond)
		_, err := d.Settle("a", id, 0)
		must(t, err)
		check(t, "left", d.left(), 10)
	})
}

// TestDenialsCountFromTheFirstUse: of the present window, or since the bucket was
// full.
func TestDenialsCountFromTheFirstUse(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, one("r", quota(2, time.Second, a)))
				d.allows("a", 2, 5)
				check(t, "denied", d.Explain("a").Rules[0].Denied, 3)
				time.Sleep(10 * time.Second)
				check(t, "denied, at rest", d.Explain("a").Rules[0].Denied, 0)
				d.allows("a", 1, 1)
				check(t, "denied, of this use", d.Explain("a").Rules[0].Denied, 0)
			})
		})
	}
}

// TestDenialsUnderALimitOfOnesOwn count like those under the rule's.
func TestDenialsUnderALimitOfOnesOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{MaxLimit: 100}, one("r", quota(10, time.Second, config.Fixed)))
		ask := func(n, limit int) {
			for range n {
				d.Decide(&decider.Request{Key: "a", N: 1, Limit: limit}, new(decider.Verdict))
			}
		}
		ask(20, 5)
		check(t, "denied", d.Explain("a").Rules[0].Denied, 15)
		time.Sleep(2 * time.Second)
		ask(3, 5)
		check(t, "denied, of this window", d.Explain("a").Rules[0].Denied, 0)
		ask(12, 0)
		ask(5, 20)
		check(t, "denied, though others are allowed more", d.Explain("a").Rules[0].Denied, 5)
	})
}

// TestARefundAfterTheRateWasRaised: the bucket is then as if the tokens had not been taken.
func TestARefundAfterTheRateWasRaised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := one("r", config.Quota{Rate: config.Rate{Count: 1, Period: time.Hour}, Burst: 10})
		fast := slow
		fast.Rate = config.Rate{Count: 10, Period: 10 * time.Second}
		for _, tt := range []struct {
			after time.Duration
			left  int
		}{{time.Second, 6}, {4 * time.Second, 9}, {9 * time.Second, 10}, {time.Minute, 10}} {
			d := newDesk(t, server.Config{}, slow)
			d.allows("a", 5, 5)
			id := d.grant(5)
			time.Sleep(time.Second)
			must(t, d.Reload(&config.Rules{Rules: []config.Rule{fast}}))
			time.Sleep(tt.after)
			got, err := d.Settle("a", id, 0)
			must(t, err)
			check(t, "charged after "+tt.after.String(), got.Charged, 0)
			check(t, "left after "+tt.after.String(), d.left(), tt.left)
		}
	})
}
