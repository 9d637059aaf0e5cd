package demo_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/demo"
)

// The five experiments, over real HTTP at ten times the speed. The bounds are
// those of the law N = X·R, with a tolerance of a few per cent for a shared
// machine on which a tenth of a millisecond counts as one.
func TestExperiments(t *testing.T) {
	report, err := demo.RunAll(t.Context(), 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := report.Table(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())

	between := func(what string, v, least, most float64) {
		t.Helper()
		if v < least || v > most {
			t.Errorf("%s: %.3f: want [%v, %v]", what, v, least, most)
		}
	}
	quantile := func(what string, v *float64, least, most float64) {
		t.Helper()
		if v == nil {
			t.Errorf("%s: there is none", what)
			return
		}
		between(what, *v, least, most)
	}
	for _, e := range report.Experiments {
		switch e.Name {
		case "normal":
			between("normal: goodput", e.Goodput, 4.75, 5.1)
			quantile("normal: p99", e.P99, 1, 1.3)
		case "slow":
			between("slow: goodput", e.Goodput, 0, 0)
			between("slow: origin", e.Throughput, 3.3, 3.55)
			quantile("slow: origin p99", e.OriginP99, 4, 30)
		case "more-workers":
			between("more workers: goodput", e.Goodput, 4.75, 5.1)
			quantile("more workers: p99", e.P99, 2, 2.3)
		case "fixed":
			between("fixed: goodput", e.Goodput, 2.4, 2.55)
			quantile("fixed: origin p99", e.OriginP99, 2, 2.1)
		case "adaptive":
			between("adaptive: goodput", e.Goodput, 2.8, 3.55)
			quantile("adaptive: p99 of successes", e.P99, 2, 2.5)
		default:
			t.Errorf("experiment %q: there is none of that name", e.Name)
		}
	}
	if len(report.Experiments) != 5 {
		t.Errorf("%d experiments: want the source's five", len(report.Experiments))
	}
}

// Programs read the report: the fields have the names and units.
func TestReportJSON(t *testing.T) {
	data, err := json.Marshal(demo.Report{Experiments: []demo.Result{{Name: "slow"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Experiments []map[string]any `json:"experiments"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"name", "goodput_rps", "throughput_rps", "p50_seconds", "p99_seconds"} {
		if _, ok := got.Experiments[0][field]; !ok {
			t.Errorf("%s: there is no field %s", data, field)
		}
	}
	if v := got.Experiments[0]["p99_seconds"]; v != nil {
		t.Errorf("p99_seconds = %v: want null of no successes", v)
	}
}
