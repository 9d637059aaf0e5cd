package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var algorithms = []config.Algorithm{config.GCRA, config.Fixed, config.Sliding}

func TestEachAlgorithmLetsTheLimitPass(t *testing.T) {
	for _, a := range algorithms {
		for _, per := range []config.Per{config.PerKey, config.PerRule} {
			t.Run(string(a)+"/"+string(per), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := one("r", quota(3, time.Minute, a))
					r.Per = per
					d := newDesk(t, server.Config{}, r)
					d.allows("a", 3, 5)
					other := 3
					if per == config.PerRule {
						other = 0
					}
					d.allows("b", other, 5)
					v := d.ask("a", 1)
					if v.Reason != weir.OverRate || v.RetryAfter <= 0 || v.RetryAfter > 2*time.Minute {
						t.Errorf("denied: %+v", v)
					}
					time.Sleep(v.RetryAfter)
					if v := d.ask("a", 1); !v.OK {
						t.Errorf("after RetryAfter: %+v", v)
					}
					if v := d.ask("a", 4); v.OK || v.Reason != weir.OverBurst || v.RetryAfter != weir.Never {
						t.Errorf("more than there ever is: %+v", v)
					}
				})
			})
		}
	}
}

func TestFirstRuleThatMatchesCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		off := one("off", quota(0, time.Minute, config.GCRA))
		off.Mode = config.Off
		admin, users := one("admin", quota(2, time.Minute, "")), one("users", quota(1, time.Minute, ""))
		admin.Key, admin.Glob = "user:admin", ""
		users.Regex, users.Glob = "^user:", ""
		d := newDesk(t, server.Config{}, off, admin, users)
		d.allows("user:admin", 2, 3)
		d.allows("user:x", 1, 3)
		d.allows("job", 3, 3)
		v := d.ask("user:x", 1)
		check(t, "the rule that answers", v.Denied().Rule.Name, "users")
		check(t, "unmatched", d.Stats().UnmatchedAllowed, 3)
	})
}

func TestUnmatchedKeysMayBeDenied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{Rules: &config.Rules{Unmatched: "deny"}})
		v := d.ask("x", 1)
		if v.OK || v.Reason != weir.OverRate || v.RetryAfter != weir.Never || v.Denied() != nil {
			t.Errorf("%+v", v)
		}
		w, err := d.wait(t.Context(), decider.Request{Key: "x", N: 1})
		if err != nil || w.OK {
			t.Errorf("waiting: %+v, %v", w, err)
		}
		check(t, "unmatched", d.Stats().UnmatchedDenied, 2)
		check(t, "explained", d.Explain("x").Allowed, false)
	})
}

// A decision, or a batch of some, is as of the instant that the caller has read.
func TestDecidesAsOfTheCallersInstant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{Rules: &config.Rules{Unmatched: "allow"}})
		read, at := time.Now(), d.Now()
		time.Sleep(time.Minute)
		requests := []decider.Request{{Key: "x", N: 1, Now: read}, {Key: "y", N: 1}}
		verdicts := make([]decider.Verdict, 3)
		if err := d.Server.Decide(t.Context(), &requests[0], &verdicts[2]); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Server.Batch(t.Context(), requests, false, verdicts); err != nil {
			t.Fatal(err)
		}
		for i := range verdicts {
			check(t, "the instant", verdicts[i].At, at)
		}
	})
}

func TestAllRulesOrNone(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				total := one("total", quota(3, time.Minute, a))
				total.Per = config.PerRule
				d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Rules: []config.Rule{
					one("each", quota(2, time.Minute, a)), total,
				}}})
				d.allows("a", 2, 4)
				d.allows("b", 1, 4) // total has no more
				v := d.ask("b", 0)
				check(t, "b has back what total did not let it have", v.Answers[0].Remaining, 1)
				check(t, "who denied", v.Denied().Rule.Name, "total")
			})
		})
	}
}

func TestNothingIsTakenForNothing(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, one("r", quota(2, time.Minute, a)))
				for range 5 {
					if v := d.ask("a", 0); !v.OK || v.Answers[0].Remaining != 2 || v.Grant != (decider.Grant{}) {
						t.Fatalf("full: %+v", v)
					}
				}
				d.allows("a", 2, 2)
				v := d.ask("a", 0)
				if v.OK || v.RetryAfter <= 0 || v.RetryAfter > 2*time.Minute {
					t.Fatalf("empty: %+v", v)
				}
				time.Sleep(v.RetryAfter)
				if !d.ask("a", 0).OK {
					t.Error("after RetryAfter there is still none")
				}
				st := d.Stats().Rules[0]
				check(t, "counted as allowed", st.Allowed, 2)
				check(t, "counted as denied", len(st.Denied), 0)
			})
		})
	}
}

func TestShadowRulesRefuseNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := one("r", quota(2, time.Minute, ""))
		r.Mode = config.Shadow
		d := newDesk(t, server.Config{}, r)
		d.allows("a", 5, 5)
		if v, err := d.wait(t.Context(), decider.Request{Key: "a", N: 1}); err != nil || !v.OK || v.Waited > 0 {
			t.Errorf("nor does anybody wait: %+v %v", v, err)
		}
		check(t, "what it would have denied", d.Stats().Rules[0].Shadowed, 4)
	})
}

func TestACandidateIsOnlyCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := one("r", quota(4, time.Minute, ""))
		r.Candidate = ptr(quota(2, time.Minute, config.Fixed))
		d := newDesk(t, server.Config{}, r)
		d.ask("a", 0)
		d.allows("a", 4, 5)
		st := d.Stats().Rules[0]
		check(t, "its memory counts", st.Memory > newDesk(t, server.Config{}, one("r", r.Quota)).Stats().Rules[0].Memory, true)
		check(t, "allowed by it", st.TrialAllowed, 2)
		check(t, "denied by it", st.TrialDenied, 3)
		check(t, "denied", st.Denied[weir.OverRate], 1)
	})
}

func TestARequestsOwnLimitIsItsOwn(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		most    int // Config.MaxLimit
		a       config.Algorithm
		limit   int
		want    int // of 10
		thenAll int // of 10 more without a limit
	}{
		{"it may not say", 0, config.Fixed, 2, 5, 0},
		{"less than the rule", 100, config.Fixed, 2, 2, 3},
		{"less than the rule", 100, config.GCRA, 2, 2, 3},
		{"more, in windows", 100, config.Fixed, 8, 8, 0},
		{"more, in sliding windows", 100, config.Sliding, 8, 8, 0},
		{"as far as allowed", 7, config.Fixed, 9, 7, 0},
		{"a bucket holds no more than it does", 100, config.GCRA, 8, 5, 0},
	} {
		t.Run(tt.rule+"/"+string(tt.a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{MaxLimit: tt.most}, one("r", quota(5, time.Minute, tt.a)))
				got := 0
				var v decider.Verdict
				for range 10 {
					if d.Decide(&decider.Request{Key: "a", N: 1, Limit: tt.limit}, &v); v.OK {
						got++
					}
				}
				check(t, "allowed", got, tt.want)
				d.allows("a", tt.thenAll, 10)
			})
		})
	}
}

func TestBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(2, time.Minute, "")))
		reqs := []decider.Request{{Key: "a", N: 1}, {Key: "a", N: 1}, {Key: "a", N: 1}, {Key: "b", N: 2}}
		v := make([]decider.Verdict, len(reqs))
		check(t, "all or none", d.Batch(reqs, true, v), false)
		for i, want := range []weir.Reason{0, 0, weir.OverRate, 0} {
			if v[i].OK || v[i].Reason != want || v[i].Grant != (decider.Grant{}) {
				t.Errorf("%d: %+v", i, v[i])
			}
		}
		check(t, "counted as allowed", d.Stats().Rules[0].Allowed, 0)
		check(t, "each for itself", d.Batch(reqs, false, v), false)
		for i, want := range []bool{true, true, false, true} {
			check(t, "allowed", v[i].OK, want)
		}
		check(t, "all, and there is enough", d.Batch([]decider.Request{{Key: "c", N: 2}, {Key: "d", N: 1}}, true, v), true)
		check(t, "counted as allowed", d.Stats().Rules[0].Allowed, 5)
	})
}

// leaving is the context of a caller that leaves after some looks whether it has.
type leaving struct {
	context.Context
	looks int
}

func (c *leaving) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A batch ends when its caller has left: what it has not reached takes no tokens, and
// with all nothing does.
func TestBatchOfACallerThatLeaves(t *testing.T) {
	for _, all := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d := newDesk(t, server.Config{}, one("r", quota(1, time.Hour, "")))
			reqs := make([]decider.Request, 100)
			for i := range reqs {
				reqs[i] = decider.Request{Key: fmt.Sprint(strings.Repeat("a", 1000), i), N: 1}
			}
			ok, err := d.Server.Batch(&leaving{t.Context(), 3}, reqs, all, make([]decider.Verdict, len(reqs)))
			if ok || err != context.Canceled {
				t.Errorf("%v, %v: want false and the context's error", ok, err)
			}
			taken := 0
			for i := range reqs {
				var v decider.Verdict
				if d.Decide(&reqs[i], &v); !v.OK {
					taken++
				}
			}
			if all && taken > 0 || !all && (taken == 0 || taken > 20) {
				t.Errorf("all %t: %d requests have taken their token", all, taken)
			}
		})
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	for _, a := range algorithms {
		d := newDesk(t, server.Config{}, one("r", quota(100, time.Hour, a)))
		var v decider.Verdict
		req := decider.Request{Key: "a", N: 1}
		d.Decide(&req, &v)
		if n := testing.AllocsPerRun(200, func() { d.Decide(&req, &v) }); n > 0 {
			t.Errorf("%s: %v allocations", a, n)
		}
		check(t, "some were denied", v.OK, false)
	}
}

// TestUnmatchedKeysAllocateNothing, also if they are not remembered.
func TestUnmatchedKeysAllocateNothing(t *testing.T) {
	for _, apply := range []config.Apply{config.First, config.All} {
		r := one("r", quota(1, time.Hour, ""))
		r.Glob = "a*"
		d := newDesk(t, server.Config{Keys: 4, Rules: &config.Rules{Apply: apply, Unmatched: "deny", Rules: []config.Rule{r}}})
		var v decider.Verdict
		req := decider.Request{Key: strings.Repeat("x", 300), N: 1}
		if n := testing.AllocsPerRun(200, func() { d.Decide(&req, &v) }); n > 0 || v.OK {
			t.Errorf("%s: %v allocations, %+v", apply, n, v)
		}
	}
}
