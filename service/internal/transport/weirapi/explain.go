package weirapi

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// Explain reports what a request for a key would get.
func (a *API) Explain(ctx context.Context, r *weirv1.ExplainRequest) (*weirv1.ExplainResponse, error) {
	key, leave, err := a.admit(ctx, token.Debug, r.GetKey(), connlimit.Deciding)
	if err != nil {
		return nil, err
	}
	defer leave()
	x, err := a.decider.Explain(ctx, key)
	if err != nil {
		return nil, failed(ctx, err)
	}
	answer := &weirv1.ExplainResponse{Key: key, Allowed: x.Allowed}
	if !x.Allowed {
		answer.Reason, answer.RetryAfterMs = reasonOf(x.Reason), orNever(x.RetryAfter)
	}
	for i := range x.Rules {
		answer.Rules = append(answer.Rules, explained(&x.Rules[i]))
	}
	return answer, nil
}

func explained(s *decider.RuleState) *weirv1.ExplainedRule {
	r := &weirv1.ExplainedRule{
		Name: s.Rule.Name, Shadow: s.Rule.Shadow(), Rate: s.Rule.Text, Allowed: s.Allowed, Remaining: int64(s.Remaining), Used: int64(s.Used),
		ResetAfterMs: orNever(s.ResetAfter), Waiting: int64(s.Waiting), Denied: int64(s.Denied),
	}
	if s.Rule.Rated() {
		r.Limit = int64(s.Rule.Limit)
	}
	if !s.Allowed {
		r.RetryAfterMs = orNever(s.RetryAfter)
	}
	if l := s.Lease; l != nil {
		r.Lease = &weirv1.LeaseState{Limit: int64(l.Limit), Inflight: int64(l.Inflight), Waiting: int64(l.Waiting), RecoversMs: millis(l.Recovers)}
	}
	return r
}

// reasons has the reasons of denials. In a batch that is all or nothing, 0 stands for the denial of another request.
var reasons = map[weir.Reason]weirv1.Reason{
	0:               weirv1.Reason_REASON_BATCH_DENIED,
	weir.OverRate:   weirv1.Reason_REASON_OVER_RATE,
	weir.OverBurst:  weirv1.Reason_REASON_OVER_BURST,
	weir.OverLimit:  weirv1.Reason_REASON_OVER_LIMIT,
	weir.QueueFull:  weirv1.Reason_REASON_QUEUE_FULL,
	weir.Overdue:    weirv1.Reason_REASON_OVERDUE,
	weir.TooLate:    weirv1.Reason_REASON_TOO_LATE,
	weir.Closed:     weirv1.Reason_REASON_CLOSED,
	weir.Recovering: weirv1.Reason_REASON_RECOVERING,
}

func reasonOf(r weir.Reason) weirv1.Reason { return reasons[r] }

// steps has the steps of decisions that are degraded.
var steps = map[decider.Step]weirv1.Step{
	decider.Known:  weirv1.Step_STEP_KNOWN,
	decider.Last:   weirv1.Step_STEP_LAST,
	decider.Share:  weirv1.Step_STEP_SHARE,
	decider.ByRule: weirv1.Step_STEP_RULE,
}

func stepOf(s decider.Step) weirv1.Step { return steps[s] }

var outcomes = map[weirv1.Outcome]weir.Outcome{
	weirv1.Outcome_OUTCOME_UNSPECIFIED: weir.Success,
	weirv1.Outcome_OUTCOME_SUCCESS:     weir.Success,
	weirv1.Outcome_OUTCOME_DROPPED:     weir.Dropped,
	weirv1.Outcome_OUTCOME_IGNORED:     weir.Ignored,
	weirv1.Outcome_OUTCOME_TIMED_OUT:   outcome.TimedOut,
	weirv1.Outcome_OUTCOME_LEFT:        outcome.Left,
	weirv1.Outcome_OUTCOME_LATE:        outcome.Late,
	weirv1.Outcome_OUTCOME_GONE:        outcome.Gone,
}
