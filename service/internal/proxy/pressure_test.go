package proxy_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pressuretest"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/condition"
)

// press sends requests of all classes for a time in which work waits for the processor, and
// returns how many of each class were answered and how many rejected.
func (p *ruled) press(k *pressuretest.Kernel, d time.Duration, share float64, paths ...string) (answered, rejected map[string]int) {
	p.t.Helper()
	answered, rejected = map[string]int{}, map[string]int{}
	const step = 100 * time.Millisecond
	for range d / step {
		for _, path := range paths {
			switch w := p.send(path); {
			case w.Code == 200:
				answered[path]++
			case w.Code == 503 && w.Header().Get(proxy.ReasonHeader) == "pressure" && w.Header().Get("Retry-After") == "1":
				rejected[path]++
			default:
				p.t.Errorf("%s: %d, %v", path, w.Code, w.Header())
			}
		}
		k.Stall(time.Duration(share * float64(step)))
		time.Sleep(step)
	}
	return answered, rejected
}

const pressureRules = `
classes:
- {name: trial, routes: /trial, priority: sheddable}
- {name: paid, routes: /paid, priority: critical_plus}
- {name: watched, routes: /watched, priority: sheddable, mode: shadow}
`

// While work waits for the processor, the least important requests are rejected first, before
// they reach a limit. The file can change the bound.
func TestPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		p := withRules(t, pressureRules, proxy.Config{MaxPressure: 0.4, PressureFile: k.Path, Transport: answers(200, time.Millisecond)})
		all := []string{"/trial", "/paid", "/watched", "/"}
		if _, rejected := p.press(k, 10*time.Second, 0.3, all...); len(rejected) > 0 {
			t.Errorf("%v: want none below the bound", rejected)
		}
		answered, rejected := p.press(k, 30*time.Second, 1, all...)
		if rejected["/trial"] < 100 || rejected["/trial"] <= rejected["/"] || rejected["/"] == 0 || rejected["/paid"]+rejected["/watched"] > 0 || answered["/paid"] != 300 {
			t.Errorf("answered %v, rejected %v", answered, rejected)
		}
		trial, watched := p.class("trial"), p.class("watched")
		if n := uint64(rejected["/trial"]); trial.Rejected["pressure"] != n || trial.Admitted+n != trial.Requests || watched.WouldReject["pressure"] < 100 {
			t.Errorf("%+v, %+v", trial, watched)
		}
		r := p.Report()
		if c := r.Pressure; c == nil || c.Max != 0.4 || c.Now < 0.9 || c.Shed == 0 || c.File != k.Path || c.Error != "" {
			t.Errorf("%+v", c)
		}
		if r.Condition != condition.Pressed || !strings.Contains(r.Message, "requests are rejected: work waits for the processor") {
			t.Errorf("%s: %s", r.Condition, r.Message)
		}
		text := fetch(p.Admin(), "/metrics").Body.String()
		for _, want := range []string{
			fmt.Sprintf(`weir_proxy_class_decisions_total{class="trial",decision="reject",reason="pressure"} %d`, rejected["/trial"]),
			fmt.Sprintf(`weir_proxy_decisions_total{decision="reject",reason="pressure"} %d`, rejected["/trial"]+rejected["/"]),
			"weir_proxy_pressure_max_ratio 0.4", "weir_proxy_pressure_failed 0", "weir_proxy_pressure_shed_ratio 0.",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("/metrics: want %s", want)
			}
		}
		p.reload("max_pressure: 0\n" + pressureRules)
		if _, rejected := p.press(k, 5*time.Second, 1, all...); len(rejected) > 0 || p.Report().Pressure != nil {
			t.Errorf("%v: want none without a bound", rejected)
		}
		p.reload("max_pressure: 0.9\n" + pressureRules)
		if _, rejected := p.press(k, 10*time.Second, 0.8, all...); len(rejected) > 0 {
			t.Errorf("%v: want none below the other bound", rejected)
		}
		p.reload("max_pressure: 0.5\n" + pressureRules)
		if _, rejected := p.press(k, 20*time.Second, 0.8, all...); rejected["/trial"] == 0 {
			t.Errorf("%v: want some above the third bound", rejected)
		}
	})
}

// A rejected request gives the tokens of its rules back, and a cache serves an old response in
// its place.
func TestPressureBesideRulesAndCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		p := withRules(t, `
rules: [{name: all, rate: 1/d, burst: 100000}]
classes:
- {name: kept, routes: /kept, priority: sheddable, cache: {ttl: 1ms, stale_if_rejected: 1h}}
- {name: trial, routes: /trial, priority: sheddable}
`, proxy.Config{MaxPressure: 0.1, PressureFile: k.Path, Transport: answers(200, time.Millisecond)})
		_, rejected := p.press(k, 60*time.Second, 1, "/kept", "/trial")
		if rejected["/kept"] > 0 || rejected["/trial"] < 100 || p.class("kept").Rejected["pressure"] < 100 {
			t.Errorf("%v, %+v: want that the cache answers", rejected, p.class("kept"))
		}
		used := 600 + 600 - rejected["/trial"] + 1
		if left := p.send("/").Header().Get("RateLimit"); !strings.Contains(left, fmt.Sprintf("r=%d;", 100_000-used)) {
			t.Errorf("%s: want that %d tokens are used", left, used)
		}
	})
}

// A bound that cannot be kept is an error, at the start and in a reload.
func TestPressureUnreadable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		cfg  proxy.Config
		want string
	}{
		{proxy.Config{MaxPressure: 0.4, PressureFile: missing}, missing},
		{proxy.Config{MaxPressure: 1}, "Max = 1: must be > 0 and < 1"},
		{proxy.Config{MaxPressure: -0.1}, "Max = -0.1: must be > 0 and < 1"},
		{proxy.Config{SlowStart: -time.Second}, "the limit of default: limit: Idle = -1s: must be >= 0"},
	} {
		tt.cfg.Origins = []string{"http://origin.test"}
		if _, err := proxy.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: want %s", err, tt.want)
		}
	}
	p := withRules(t, pressureRules, proxy.Config{PressureFile: missing, Transport: answers(200, 0)})
	p.file.set("max_pressure: 0.4", nil)
	if _, err := p.Reload(); err == nil || !strings.Contains(err.Error(), missing) || p.Report().Pressure != nil {
		t.Errorf("%v: want an error, and no bound", err)
	}
	p.expect("/", 200, "")
}
