//go:build !race

package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// The five experiments, at their own speed, in virtual time and over connections in
// memory. The bounds follow from N = X·R.
func TestExperiments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, err := runAll(t.Context(), memory(), 1, 20*time.Minute)
		testrig.Must(t, err)
		var table strings.Builder
		testrig.Must(t, report.Table(&table))
		t.Log("\n" + table.String())
		judge(t, report)
		time.Sleep(time.Minute) // the origin ends abandoned work
	})
}

// judge checks the results against their bounds.
func judge(t *testing.T, report Report) {
	between := func(what string, v, least, most float64) {
		if !(v >= least && v <= most) {
			t.Errorf("%s: %.3f: want [%v, %v]", what, v, least, most)
		}
	}
	quantile := func(what string, v *float64, least, most float64) {
		if v == nil {
			t.Errorf("%s: there is none", what)
			return
		}
		between(what, *v, least, most)
	}
	seen := ""
	for _, e := range report.Experiments {
		seen += e.Name + " "
		switch e.Name {
		case "normal":
			between("normal: goodput", e.Goodput, 4.98, 5.02)
			quantile("normal: p99", e.P99, 1, 1.01)
		case "slow":
			between("slow: goodput", e.Goodput, 0, 0)
			between("slow: origin", e.Throughput, 3.48, 3.52)
			// Seven workers serve a full queue of 100 in 28.6 s, in steps of 2 s.
			quantile("slow: origin p99", e.OriginP99, 30, 32)
		case "more-workers":
			between("more workers: goodput", e.Goodput, 4.98, 5.02)
			quantile("more workers: p99", e.P99, 2, 2.01)
		case "fixed":
			between("fixed: goodput", e.Goodput, 2.48, 2.52)
			quantile("fixed: origin p99", e.OriginP99, 2, 2.01)
		case "adaptive":
			// Over a minute it is between 3.2 and 3.5, for the limit tries others now and then.
			between("adaptive: goodput", e.Goodput, 3.4, 3.5)
			quantile("adaptive: p99 of successes", e.P99, 2, 2.5)
		}
	}
	if seen != "normal slow more-workers fixed adaptive " {
		t.Errorf("experiments %s: want the source's five", seen)
	}
}

// The fields of the JSON report have stable names and units.
func TestReportJSON(t *testing.T) {
	data, err := json.Marshal(Report{Experiments: []Result{{Name: "slow"}}})
	testrig.Must(t, err)
	var got struct {
		Experiments []map[string]any `json:"experiments"`
	}
	testrig.Must(t, json.Unmarshal(data, &got))
	for _, field := range []string{"name", "goodput_rps", "throughput_rps", "p50_seconds", "p99_seconds"} {
		if _, ok := got.Experiments[0][field]; !ok {
			t.Errorf("%s: there is no field %s", data, field)
		}
	}
	if v := got.Experiments[0]["p99_seconds"]; v != nil {
		t.Errorf("p99_seconds = %v: want null of no successes", v)
	}
}
