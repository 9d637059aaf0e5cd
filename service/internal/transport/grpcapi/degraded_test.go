package grpcapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
)

// A degrader is a Decider that decides about the first descriptor on a step.
type degrader struct {
	decider.Decider
	step decider.Step
}

func (d degrader) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	ok, err := d.Decider.Descriptors(ctx, reqs, all, verdicts)
	verdicts[0].Step = d.step
	return ok, err
}

// An answer has a header with the worst step of its descriptors.
func TestDegraded(t *testing.T) {
	r := newRig(t, grpcapi.Config{}, config.RateLimitOptions{}, `rules: [{name: users, entries: {user: "*"}, rate: 9/h}]`)
	for step := range decider.StepsCount {
		api, err := grpcapi.New(degrader{r.server, step}, grpcapi.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		req := httptest.NewRequest("POST", "/json", strings.NewReader(`{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "1"}]}, {"entries": [{"key": "user", "value": "2"}]}]}`))
		api.Handler(http.NotFoundHandler()).ServeHTTP(w, req)
		body := strings.ReplaceAll(w.Body.String(), " ", "")
		want := `"responseHeadersToAdd":[{"key":"x-weir-degraded","value":"` + step.String() + `"}]`
		if has := strings.Contains(body, want); w.Code != 200 || has != step.Degraded() || strings.Contains(body, "degraded") != has {
			t.Errorf("%v: %d, %s", step, w.Code, body)
		}
	}
}
