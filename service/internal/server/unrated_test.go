package server_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const leaseRules = `
rules:
  - {name: reports, key: reports, concurrency: {limit: 1}}
  - {name: trial, key: trial, concurrency: {limit: 1}, mode: shadow}
  - {name: both, key: both, rate: 10/h, concurrency: {limit: 1}}
`

// A key that only has leases gets an error if a request asks for its rate: there is none that
// could deny. No other request of the batch takes tokens.
func unrated(t *testing.T, d decider.Decider) {
	t.Helper()
	ctx := t.Context()
	for key, want := range map[string]error{"reports": decider.ErrNoRate, "trial": nil, "both": nil, "unmatched": nil} {
		for _, n := range []int{0, 1} {
			var v decider.Verdict
			if err := d.Decide(ctx, &decider.Request{Key: key, N: n}, &v); err != want || v.OK != (want == nil) {
				t.Errorf("%s, n = %d: %+v, %v: want %v", key, n, v, err, want)
			}
			if err := d.Wait(ctx, &decider.Request{Key: key, N: n}, &v); err != want {
				t.Errorf("%s, n = %d: waiting: %v: want %v", key, n, err, want)
			}
		}
	}
	reqs := []decider.Request{{Key: "both", N: 1}, {Key: "reports", N: 1}}
	for _, all := range []bool{false, true} {
		if ok, err := d.Batch(ctx, reqs, all, make([]decider.Verdict, 2)); ok || err != decider.ErrNoRate {
			t.Errorf("batch, all = %v: %v, %v", all, ok, err)
		}
	}
	if _, err := d.Descriptors(ctx, reqs, false, make([]decider.Verdict, 2)); err != decider.ErrNoRate {
		t.Errorf("descriptors: %v", err)
	}
	var v decider.Verdict
	if err := d.Decide(ctx, &decider.Request{Key: "both"}, &v); err != nil || len(v.Answers) != 1 || v.Answers[0].Remaining != 8 {
		t.Errorf("%+v, %v: want 8 tokens left", v, err)
	}
	if l, err := d.Acquire(ctx, decider.LeaseRequest{Key: "reports", N: 1}); err != nil || l.Inflight != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestUnrated(t *testing.T) {
	rules, err := config.Parse("rules.yaml", []byte(leaseRules))
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(t *testing.T) { unrated(t, newDesk(t, server.Config{Rules: rules}).Server) })
	bubble(t, func(t *testing.T) {
		unrated(t, newZone(t, newDesk(t, server.Config{Rules: rules}).Server, "zone", rules, server.TierConfig{}).Tier)
	})
}
