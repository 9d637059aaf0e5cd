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
