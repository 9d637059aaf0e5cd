package server_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
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

func TestWhatIsSettled(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		debt    *int
		was, n  int
		charged int
		left    int           // of 10; a debt shows as 0
		until   time.Duration // when there are 10 again
	}{
		{"the cost that was thought", nil, 4, 4, 4, 6, 4 * time.Second},
		{"less comes back", nil, 4, 1, 1, 9, time.Second},
		{"all comes back", nil, 4, 0, 0, 10, 0},
		{"more is charged", nil, 1, 7, 7, 3, 7 * time.Second},
		{"into debt", nil, 1, 15, 15, 0, 15 * time.Second},
		{"of a burst", nil, 1, 100, 20, 0, 20 * time.Second},
		{"or as far as the rule says", ptr(3), 1, 100, 13, 0, 13 * time.Second},
		{"or not at all", ptr(0), 1, 100, 10, 0, 10 * time.Second},
		{"a late refund of a full bucket changes nothing", nil, 10, 0, 0, 10, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := one("r", quota(10, 10*time.Second, config.GCRA))
				r.MaxDebt = tt.debt
				d := newDesk(t, server.Config{}, r)
				id := d.grant(tt.was)
				if strings.HasPrefix(tt.rule, "a late") {
					time.Sleep(10*time.Second + 2*time.Millisecond)
				}
				got, err := d.Settle("a", id, tt.n)
				must(t, err)
				check(t, "settled", got, decider.Settled{Was: tt.was, Charged: tt.charged})
				check(t, "left", d.left(), tt.left)
				check(t, "full in", d.ask("a", 0).Answers[0].ResetAfter, tt.until)
			})
		})
	}
}

// TestDebtsDoNotAddUp: however many grants turn out dearer, the debt of their key
// stays within its bound.
func TestDebtsDoNotAddUp(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := one("r", quota(10, 10*time.Second, a))
				r.MaxDebt = ptr(5)
				d := newDesk(t, server.Config{}, r)
				var ids []string
				for range 10 {
					ids = append(ids, d.grant(1))
				}
				charged := 0
				for _, id := range ids {
					got, err := d.Settle("a", id, 4)
					must(t, err)
					charged += got.Charged
				}
				check(t, "charged", charged, 15)
			})
		})
	}
}

func TestAGrantIsSettledOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(10, time.Hour, "")))
		first, second := d.grant(2), d.grant(2)
		if first == second {
			t.Fatal("two grants have one id")
		}
		_, err := d.Settle("a", first, 0)
		must(t, err)
		for range 3 {
			if _, err := d.Settle("a", first, 0); !errors.Is(err, decider.ErrNoGrant) {
				t.Errorf("again: %v", err)
			}
		}
		check(t, "left", d.left(), 8)
		time.Sleep(decider.GrantLife - time.Minute)
		if _, err := d.Settle("a", first, 0); !errors.Is(err, decider.ErrNoGrant) {
			t.Errorf("much later: %v", err)
		}
		_, err = d.Settle("a", second, 0)
		must(t, err)
	})
}

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

// TestHoardedGrantsRefillNothing: returning many grants at once has no effect if the
// bucket has refilled since.
func TestHoardedGrantsRefillNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(10, time.Second, "")))
		var ids []string
		for range 100 {
			ids = append(ids, d.grant(1))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond) // ids tell whole ones
		d.allows("a", 10, 20)
		for _, id := range ids {
			_, err := d.Settle("a", id, 0)
			must(t, err)
		}
		d.allows("a", 0, 100) // it would have been full all the time
	})
}

func TestSettlingServesTheLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, queued(quota(1, time.Hour, ""), 10))
		id := d.grant(1)
		waiter := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
		time.Sleep(time.Second)
		_, err := d.Settle("a", id, 0)
		must(t, err)
		check(t, "who waits", <-waiter, "granted after 1s")
	})
}

func TestReloadKeepsCounts(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		change func(*config.Rule)
		left   int
	}{
		{"the same rule", func(*config.Rule) {}, 3},
		{"another pattern", func(r *config.Rule) { r.Glob = "a*" }, 3},
		{"another queue", func(r *config.Rule) { r.Queue = ptr(5) }, 3},
		{"a larger burst", func(r *config.Rule) { r.Burst = 20 }, 3},
		{"a smaller one", func(r *config.Rule) { r.Burst = 2 }, 2},
		{"counted otherwise", func(r *config.Rule) { r.Algorithm = config.Fixed }, 10},
		{"another name is another rule", func(r *config.Rule) { r.Name = "s" }, 10},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := one("r", quota(10, time.Hour, ""))
				d := newDesk(t, server.Config{}, r)
				d.allows("a", 7, 7)
				tt.change(&r)
				must(t, d.Reload(&config.Rules{Rules: []config.Rule{r}}))
				check(t, "left", d.left(), tt.left)
			})
		})
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
			check(t, "settled", got, decider.Settled{Was: 7, Charged: 2})
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

// TestWhoGaveHasItBack: a grant is of the rules that gave it. If others count for
// the key by the time that it is settled, it is none any more.
func TestWhoGaveHasItBack(t *testing.T) {
	a, b := one("a", quota(100, time.Hour, "")), one("b", quota(10, time.Hour, ""))
	for _, tt := range []struct {
		rule string
		then []config.Rule
		want error
		left int // after 5 were taken, and are given back
	}{
		{"the same rules", []config.Rule{a, b}, nil, 100},
		{"another after it", []config.Rule{a, b, one("c", quota(1, time.Hour, ""))}, nil, 100},
		{"another quota", []config.Rule{one("a", quota(50, time.Hour, "")), b}, nil, 50},
		{"another order", []config.Rule{b, a}, decider.ErrNoGrant, 10},
		{"it is gone", []config.Rule{b}, decider.ErrNoGrant, 10},
		{"it begins anew", []config.Rule{one("a", quota(100, time.Hour, config.Fixed))}, decider.ErrNoGrant, 100},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, a, b)
				id := d.grant(5)
				time.Sleep(time.Millisecond)
				must(t, d.Reload(&config.Rules{Rules: tt.then}))
				if _, err := d.Settle("a", id, 0); err != tt.want {
					t.Errorf("%v, want %v", err, tt.want)
				}
				check(t, "left", d.left(), tt.left)
			})
		})
	}
}

// TestWhatIsGivenBackMakesNobodyMore: tokens that a bucket would have had to
// spill, had they not been taken, do not come back.
func TestWhatIsGivenBackMakesNobodyMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(10, time.Second, "")))
		id := d.grant(10)
		time.Sleep(950 * time.Millisecond) // ids tell whole milliseconds, and what comes back is whole tokens
		d.allows("a", 9, 20)
		_, err := d.Settle("a", id, 0)
		must(t, err)
		d.allows("a", 1, 20)
	})
}

// TestWhatIsOwedComesBack: of a bucket that was nearly empty, all comes back for as
// long as it would not have been full.
func TestWhatIsOwedComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(100, 100*time.Second, "")))
		d.grant(80)
		id := d.grant(20)
		time.Sleep(70 * time.Second)
		check(t, "left before", d.left(), 70)
		got, err := d.Settle("a", id, 5)
		must(t, err)
		check(t, "charged", got.Charged, 5)
		check(t, "left", d.left(), 85)
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

func TestWhatIsExplained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, queued(slow(""), 10))
		x := d.Explain("a")
		if !x.Allowed || len(x.Rules) != 1 || x.Rules[0].Remaining != 1 || x.Rules[0].Used != 0 {
			t.Errorf("fresh: %+v", x)
		}
		d.allows("a", 1, 3)
		d.queue(t.Context(), decider.Request{Key: "a", N: 1})
		x = d.Explain("a")
		if x.Allowed || x.Reason != weir.OverRate || x.RetryAfter != 2*time.Second || x.Rules[0].Waiting != 1 ||
			x.Rules[0].Used != 1 || x.Rules[0].Denied != 2 || x.Rules[0].RetryAfter != 2*time.Second {
			t.Errorf("busy: %+v", x)
		}
		check(t, "nothing is counted for it", d.Stats().Rules[0].Denied[weir.OverRate], 2)
		time.Sleep(3 * time.Second)
		check(t, "denials of the present second", d.Explain("a").Rules[0].Denied, 0)
	})
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

// TestGrantIsAsOfItsDecision: if the id of a grant is written late, to a slow reader, the grant returns
// nothing to the window that has begun since.
func TestGrantIsAsOfItsDecision(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, one("r", quota(10, 10*time.Second, a)))
				var verdicts [3]decider.Verdict
				d.Batch([]decider.Request{{Key: "a", N: 4}, {Key: "a", N: 4}, {Key: "a", N: 2}}, false, verdicts[:])
				time.Sleep(21 * time.Second)
				d.ask("a", 10)
				for i := range verdicts {
					_, err := d.Settle("a", string(d.AppendGrantID(nil, verdicts[i].Grant, "a")), 0)
					must(t, err)
				}
				check(t, "left", d.left(), 0)
			})
		})
	}
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

// TestGrantsOutliveAnotherOrder of the rules.
func TestGrantsOutliveAnotherOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := one("a", quota(5, time.Hour, "")), one("b", quota(5, time.Hour, ""))
		d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Rules: []config.Rule{a, b}}})
		id := d.grant(2)
		must(t, d.Reload(&config.Rules{Apply: config.All, Rules: []config.Rule{b, a}}))
		got, err := d.Settle("a", id, 0)
		check(t, "error", err, nil)
		check(t, "settled", got, decider.Settled{Was: 2})
		check(t, "left", d.left(), 5)
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
