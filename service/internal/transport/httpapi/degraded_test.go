package httpapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A degrader is a Decider that decides on a step. On the step ByRule, it denies.
type degrader struct {
	decider.Decider
	step decider.Step
}

func (d degrader) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	err := d.Decider.Decide(ctx, req, v)
	d.degrade(v)
	return err
}

func (d degrader) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	ok, err := d.Decider.Batch(ctx, reqs, all, verdicts)
	for i := range reqs {
		d.degrade(&verdicts[i])
	}
	return ok && d.step != decider.ByRule, err
}

func (d degrader) degrade(v *decider.Verdict) {
	if v.Step = d.step; d.step == decider.ByRule {
		v.Deny(weir.Closed, time.Second)
	}
}

func (d degrader) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if d.step == decider.ByRule {
		return decider.Lease{Step: d.step}, weir.Reject(weir.Closed, time.Second)
	}
	l, err := d.Decider.Acquire(ctx, req)
	l.Step = d.step
	return l, err
}

// Answers say on what step of the ladder they were decided, and openapi.yaml has that.
func TestDegraded(t *testing.T) {
	s := newSite(t, httpapi.Config{}, allKeys(9, time.Hour, config.GCRA), config.Rule{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 9}})
	for step := range decider.StepsCount {
		api, err := httpapi.New(degrader{s.server, step}, httpapi.Config{})
		if err != nil {
			t.Fatal(err)
		}
		site := &site{api, s.server, t}
		status, field, result := http.StatusOK, step.String(), `{"ok":true,"remaining":8,"degraded":"`+step.String()+`"}`
		switch step {
		case decider.Exact, decider.Assigned:
			field, result = "", `{"ok":true,"remaining":8}`
		case decider.ByRule:
			status, result = http.StatusServiceUnavailable, `{"ok":false,"reason":"closed","rule":"everybody","retry_after_ms":1000,"degraded":"rule"}`
		}
		for _, path := range []string{"/rate/" + step.String(), "/lease/" + step.String()} {
			a := site.ask("POST", path, "")
			if a.status != status || a.header.Get("Weir-Degraded") != field {
				t.Errorf("%v: %s: %d, Weir-Degraded %q, %s", step, path, a.status, a.header.Get("Weir-Degraded"), a.body)
			}
			if step == decider.ByRule && a.text("error") != "the store or the upstream of the limits does not answer, and the rule denies without it" {
				t.Errorf("%s: %s", path, a.body)
			}
		}
		if a := site.ask("POST", "/rate", `[{"key":"`+step.String()+` batch"}]`); a.body != `{"ok":`+map[bool]string{true: "true", false: "false"}[status == 200]+`,"results":[`+result+"]}\n" {
			t.Errorf("%v: %s", step, a.body)
		}
	}
}
