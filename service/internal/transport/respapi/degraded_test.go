package respapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// A degrader is a Decider that decides by a share of the limits. It denies the key "away" by
// its rule.
type degrader struct{ decider.Decider }

func (d degrader) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	err := d.Decider.Decide(ctx, req, v)
	v.Step = decider.Share
	if req.Key == "away" {
		v.Step = decider.ByRule
		v.Deny(weir.Closed, time.Second)
	}
	return err
}

func (d degrader) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return d.Decide(ctx, req, v)
}

func (d degrader) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if req.Key == "away" {
		return decider.Lease{Step: decider.ByRule}, weir.Reject(weir.Closed, time.Second)
	}
	l, err := d.Decider.Acquire(ctx, req)
	l.Step = decider.Share
	return l, err
}

// Replies that are maps say on what step of the ladder they were decided.
func TestDegraded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv, err := server.New(server.Config{Rules: &config.Rules{Apply: config.All, Rules: []config.Rule{
			{Name: "logins", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 9, Period: time.Hour}}},
			{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 1}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		p := serveOn(t, respapi.Config{}, degrader{srv}).dial()
		p.do("HELLO 3")
		for _, command := range []string{"WEIR.TAKE a", "WEIR.WAIT a", "WEIR.LEASE a", "WEIR.LEASE a"} { // the last is denied
			if reply, _ := p.do(command).(map[string]any); reply["degraded"] != "share" {
				t.Errorf("%s: %v", command, reply)
			}
		}
		for _, command := range []string{"WEIR.TAKE away", "WEIR.WAIT away", "WEIR.LEASE away"} {
			p.wants(command, "UNAVAILABLE the store or the upstream of the limits does not answer, and the rule denies without it")
		}
	})
}
