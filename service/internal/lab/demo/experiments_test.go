package demo_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/lab/demo"
)

// The five experiments, over real HTTP at ten times the speed. The bounds follow from
// N = X·R, with a tolerance of a few per cent, because delays of the machine count
// tenfold.
//
// If an experiment fails and the machine has stalled meanwhile, all are run again, at a
// lower speed: a stall of 50 ms is half a second at ten times the speed, and 100 ms at
// twice the speed.
func TestExperiments(t *testing.T) {
	const stalled = 5 * time.Millisecond
	for _, speed := range []float64{10, 5, 2} {
		stop := make(chan struct{})
		stall := make(chan time.Duration)
		go func() { stall <- worstStall(stop) }()
		report, err := demo.RunAll(t.Context(), speed, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		close(stop)
		worst := <-stall
		var table strings.Builder
		if err := report.Table(&table); err != nil {
			t.Fatal(err)
		}
		t.Logf("worst stall of the machine: %v\n%s", worst, table.String())
		faults := judge(report)
		if len(faults) > 0 && worst >= stalled && speed > 2 {
			t.Logf("again, for the machine stalled: %q", faults)
			continue
		}
		for _, fault := range faults {
			t.Error(fault)
		}
		return
	}
}

// auto is the least goodput of the proxy with the limit auto; N = X·R allows 3.5. At
// normal speed the experiment has 3.4.
const auto = 3.35

// worstStall is the longest that a goroutine had to wait beyond its time.
func worstStall(stop <-chan struct{}) (worst time.Duration) {
	const period = 2 * time.Millisecond
	last := time.Now()
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return worst
		case <-tick.C:
		}
		now := time.Now()
		worst = max(worst, now.Sub(last)-period)
		last = now
	}
}

// judge returns the results that are out of bounds.
func judge(report demo.Report) (faults []string) {
	between := func(what string, v, least, most float64) {
		if !(v >= least && v <= most) {
			faults = append(faults, fmt.Sprintf("%s: %.3f: want [%v, %v]", what, v, least, most))
		}
	}
	quantile := func(what string, v *float64, least, most float64) {
		if v == nil {
			faults = append(faults, what+": there is none")
			return
		}
		between(what, *v, least, most)
	}
	seen := ""
	for _, e := range report.Experiments {
		seen += e.Name + " "
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
			between("adaptive: goodput", e.Goodput, auto, 3.55)
			quantile("adaptive: p99 of successes", e.P99, 2, 2.5)
		}
	}
	if seen != "normal slow more-workers fixed adaptive " {
		faults = append(faults, "experiments "+seen+": want the source's five")
	}
	return faults
}

// The fields of the JSON report have stable names and units.
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
