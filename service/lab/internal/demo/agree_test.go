//go:build system

package demo_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/lab/internal/demo"
)

// A screen has the numbers that the page shows at one moment.
type screen struct {
	Law    []float64                     `json:"law"`    // N, X and R
	Tiles  map[string]float64            `json:"tiles"`  // by data-testid; 0 for none
	Charts map[string]map[string]float64 `json:"charts"` // latest values by data-testid and label
}

// readScreen is one expression, so that no number changes while others are read.
const readScreen = `(() => {
	const numbers = (text) => (text.match(/\d+(\.\d+)?/g) ?? []).map(Number);
	const at = (id) => document.querySelector("[data-testid=" + id + "]");
	const tiles = {}, charts = {};
	for (const dd of document.querySelectorAll(".numbers dd[data-testid]")) tiles[dd.dataset.testid] = numbers(dd.innerText)[0] ?? 0;
	for (const box of document.querySelectorAll("main figure > div")) {
		charts[box.dataset.testid] = {};
		for (const s of [...box.querySelectorAll(".u-series")].slice(1)) {
			charts[box.dataset.testid][s.querySelector(".u-label").textContent] = numbers(s.querySelector(".u-value").textContent)[0] ?? 0;
		}
	}
	return { law: numbers(at("law").innerText), tiles, charts };
})()`

// disagreement returns the numbers of a screen that do not agree within rounding; empty if
// all do.
func (s screen) disagreement() string {
	var wrong []string
	same := func(what string, x, y, tolerance float64) {
		if math.Abs(x-y) > tolerance+1e-9 {
			wrong = append(wrong, fmt.Sprintf("%s: %v and %v", what, x, y))
		}
	}
	sum := func(prefixes ...string) (total float64, terms float64) {
		for label, v := range s.Charts["client-chart"] {
			for _, p := range prefixes {
				if strings.HasPrefix(label, p) {
					total, terms = total+v, terms+1
				}
			}
		}
		return total, terms
	}
	const half = 0.05 // of the last digit
	if len(s.Law) != 3 {
		return fmt.Sprintf("the law has the numbers %v", s.Law)
	}
	n, x, r := s.Law[0], s.Law[1], s.Law[2]
	same("N and X·R", n, x*r, half+half/10*(x+r))
	same("in flight: law and tile", n, s.Tiles["inflight"], 0)
	same("in flight: tile and chart", s.Tiles["inflight"], s.Charts["inflight-chart"]["in flight"], 0)
	same("limit: tile and chart", s.Tiles["limit"], s.Charts["inflight-chart"]["limit"], 0)
	same("finished: law and tile", x, s.Tiles["origin-throughput"], half+half/10)
	same("finished: tile and chart", s.Tiles["origin-throughput"], s.Charts["throughput-chart"]["finished"], 0)
	same("goodput: tile and the origin's chart", s.Tiles["goodput"], s.Charts["throughput-chart"]["of these, in time"], 0)
	same("R: law and chart", r, s.Charts["latency-chart"]["mean: R = N ÷ X"], 0)
	same("p99: tile and chart", s.Tiles["origin-p99"], s.Charts["latency-chart"]["p99: 99 % below"], 0)
	for tile, prefixes := range map[string][]string{
		"goodput": {"200"}, "rejected": {"503", "429"}, "timed-out": {"504", "client gave up"}, "offered": {""},
	} {
		total, terms := sum(prefixes...)
		same(tile+": tile and the client's chart", s.Tiles[tile], total, half*(terms+1))
	}
	return strings.Join(wrong, "; ")
}

// The tour tells its story on the page, and at each of its steps, all places of the page
// that show a number show the same.
func TestPageTour(t *testing.T) {
	live, url := serve(t, 10)
	tab := browser.Open(t, url, 1280, 900)
	until := func(what string, ok func() bool) { t.Helper(); tab.Until(what, ok) }
	says := func(want string) func() bool {
		return func() bool { return strings.Contains(tab.Text("story"), want) }
	}
	step := func() string {
		return browser.Evaluate[string](tab, `document.querySelector("[aria-current=step]")?.textContent ?? ""`)
	}
	until("the stream is live", func() bool { return tab.Text("status") == "live" })
	if at := step(); at != "" {
		t.Errorf("the tour is at %q before it began", at)
	}
	tab.Click("tour")
	for _, s := range []struct{ step, story, screenshot string }{
		{"Normal", "Every request is answered in time", "tour-1-normal"},
		{"Overload", "7 workers ÷ 2 s = 3.5 requests per second at most, and clients want 5", "tour-2-overload"},
		{"Collapse of goodput", "all of them too late", "tour-3-collapse"},
		{"Proxy on", "refuses the others early", "tour-4-proxy"},
		{"Recovery", "useful answers per second", "tour-5-recovery"},
	} {
		until("the tour is at "+s.step, func() bool { return step() == s.step })
		until("the story tells it", says(s.story))
		until("there is a law", func() bool { return len(browser.Evaluate[screen](tab, readScreen).Law) == 3 })
		for range 10 {
			if wrong := browser.Evaluate[screen](tab, readScreen).disagreement(); wrong != "" {
				t.Errorf("at %s: %s", s.step, wrong)
			}
		}
		tab.Screenshot(s.screenshot)
	}
	until("goodput is near the bound", func() bool { return number(tab, "goodput") >= 3.2 })
	for _, v := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"tour-wide", 1280, 900, false}, {"tour-dark", 1280, 900, true}, {"tour-narrow", 390, 1700, false}} {
		tab.View(v.width, v.height, v.dark)
		until("the "+v.name+" page is not too wide", func() bool {
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		tab.Screenshot(v.name)
	}
	if err := live.Steer(demo.Steer{Experiment: "slow"}); err != nil {
		t.Fatal(err)
	}
	until("an experiment ends the tour", func() bool { return step() == "" && tab.Pressed("experiment-slow") })
	until("the numbers of the experiment agree", func() bool {
		return number(tab, "origin-throughput") > 3 && browser.Evaluate[screen](tab, readScreen).disagreement() == ""
	})
}
