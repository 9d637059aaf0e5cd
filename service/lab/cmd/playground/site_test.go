//go:build system

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/browser"
)

// The site, with the simulator, in Chromium: pages are accessible and fit a telephone, by day and by night, the search
// finds, and the playground simulates within its budget of bytes.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "run", "-C", "../../../../site", ".", "-out", dir, "-version", "v9.8.7")
	build.Env = append(os.Environ(), "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	info, err := os.Stat(filepath.Join(dir, "v/v9.8.7/sim.wasm.gzip"))
	testrig.Must(t, err)
	if most := int64(3 << 20); info.Size() > most {
		t.Errorf("the simulator has %d bytes, compressed: at most %d", info.Size(), most)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)

	// The first page of the site leads to the newest version.
	tab := browser.Open(t, server.URL, 1280, 900)
	visits := 0
	visit := func(path string) {
		visits++ // without this, an address that differs in its fragment alone would not load the page
		path, fragment, _ := strings.Cut(path, "#")
		tab.Visit(fmt.Sprintf("%s/v/v9.8.7/%s?%d#%s", server.URL, path, visits, fragment))
	}
	shown := func() {
		tab.Until("the simulator has drawn", func() bool {
			return browser.Evaluate[bool](tab, `Boolean(document.documentElement.dataset.shown) && document.querySelectorAll("canvas").length > 0`)
		})
	}
	tab.Until("the entry leads on", func() bool { return browser.Evaluate[bool](tab, `location.pathname.startsWith("/v/v9.8.7/")`) })

	// Each page once by day on a desk, and once by night on a telephone.
	for name, path := range map[string]string{"home": "index.html", "play": "playground.html#limit=auto&rate=300&slow=3&retries=2", "serve": "docs/serve.html"} {
		for _, width := range []int64{1280, 390} {
			night := width == 390
			tab.View(width, 900, night)
			visit(path)
			if name != "serve" {
				shown()
			}
			tab.Screenshot(fmt.Sprintf("site-%s-%d-%v", name, width, night))
			if over := browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s at %d pixels: %d too wide", name, width, over)
			}
			if found := tab.Violations(); found != "[]" {
				t.Errorf("%s at %d pixels, by night %v: %s", name, width, night, found)
			}
			tab.View(width, 900, !night)
			browser.Evaluate[bool](tab, `requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true })), true`)
			tab.Until("the page has new colours", func() bool { return browser.Evaluate[bool](tab, `Boolean(window.drawn)`) })
			tab.Screenshot(fmt.Sprintf("site-%s-%d-%v", name, width, !night))
		}
	}
	tab.View(1280, 900, false)

	// Nothing comes from elsewhere.
	for _, path := range []string{"index.html", "playground.html", "docs/serve.html"} {
		visit(path)
		if other := browser.Evaluate[string](tab, `performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith(location.origin)).join()`); other != "" {
			t.Errorf("%s loads %s", path, other)
		}
	}

	// A document plays its scenario.
	visit("docs/capacity.html")
	browser.Evaluate[bool](tab, `document.querySelector(".live button").click(), true`)
	tab.Until("a document has drawn", func() bool {
		return browser.Evaluate[int](tab, `document.querySelectorAll(".live canvas").length`) == 4
	})
	tab.Screenshot("site-live")

	for query, want := range map[string]string{
		"burst": "docs/terms.html#burst", "429": "docs/terms.html#", "envoy": "docs/envoy.html", "waiting": "docs/terms.html#queue-waiting", "retry storm": "",
		"proto": "docs/grpc-api.html", "grpc": "docs/grpc-api.html", "openapi": "docs/http-api.html", "errors": "docs/errors.html", "flags": "docs/defaults.html",
		"schema": "docs/serve.html#every-key", "metrics": "docs/metrics.html", "scenario": "docs/sim-reference.html", "overload": "", "xyzzyx": "Nothing found",
	} {
		browser.Evaluate[bool](tab, fmt.Sprintf(`document.getElementById("found").textContent = "", document.getElementById("query").value = %q, document.getElementById("query").dispatchEvent(new Event("input")), true`, query))
		tab.Until("the search finds "+query, func() bool {
			text := browser.Evaluate[string](tab, `[...document.querySelectorAll("#found li")].map((li) => li.textContent + " " + (li.querySelector("a")?.href ?? "")).join("\n")`)
			t.Logf("%s:\n%s", query, text)
			return text != "" && strings.Contains(text, want) && (query == "xyzzyx" || strings.Contains(strings.ToLower(text), query))
		})
	}

	// A scenario of the docs has five runs, also by the link that carries it.
	visit("playground.html")
	browser.Evaluate[bool](tab, `(() => { const e = document.getElementById("examples"); e.value = "capacity.yaml"; e.dispatchEvent(new Event("input")); return true })()`)
	runs := func() bool { return browser.Evaluate[int](tab, `document.querySelectorAll("#laws > *").length`) == 5 }
	tab.Until("the scenario is simulated", runs)
	_, link, _ := strings.Cut(browser.Evaluate[string](tab, `location.href`), "#")
	visit("playground.html#" + link)
	tab.Until("the link is simulated", runs)

	// A change in the playground is simulated; the file of weirlab sim and the address have it.
	visit("playground.html")
	shown()
	browser.Evaluate[bool](tab, `(() => { const w = document.getElementById("workers"); w.value = 20; w.dispatchEvent(new Event("input")); return true })()`)
	tab.Until("20 workers serve all without a limit", func() bool {
		return browser.Evaluate[float64](tab, `Number(document.querySelector("#laws .big b").textContent)`) > 290
	})
	if text := browser.Evaluate[string](tab, `document.getElementById("text").value`); !strings.Contains(text, "workers: 20\n") {
		t.Errorf("the file of 20 workers: %s", text)
	}
	tab.Until("the address carries the change", func() bool { return browser.Evaluate[string](tab, `location.hash`) == "#workers=20" })

	// Links that are damaged or hostile do no harm, and the controls work after them.
	status := func() string { return browser.Evaluate[string](tab, `document.getElementById("status").textContent`) }
	markup := "name: <img src=x>\nduration: 10s\nlayers:\n  - name: <img src=x>\n    workers: 1\n    service_time: 10ms\nclients:\n" +
		"  - name: c\n    rate: 10\nvariants:\n  - name: <img src=x>\n  - name: </td><script>document.title = 1</script>\n"
	short := "name: x\nduration: 1s\nstep: 5s\nlayers:\n  - {name: s, workers: 1, service_time: 10ms}\nclients:\n  - {name: c, rate: 10}\n"
	for fragment, want := range map[string]string{
		"file=" + url.QueryEscape(short):  "one run of 1 s",
		"file=%":                          "scenario.yaml:1:1: ",
		"file=" + url.QueryEscape(markup): "2 runs of 10 s",
		"workers=2.5&toString=1":          "2 runs of 60 s",
	} {
		visit("playground.html#" + fragment)
		tab.Until(fragment+" has "+want, func() bool { return strings.HasPrefix(status(), want) })
		if browser.Evaluate[bool](tab, `document.title === "1" || Boolean(document.querySelector("#charts img, #charts script, #laws img, #laws script"))`) {
			t.Errorf("%s: the page has markup of the link", fragment)
		}
		browser.Evaluate[bool](tab, `document.getElementById("status").textContent = "", document.getElementById("reset").click(), true`)
		tab.Until("the controls work again", func() bool { return strings.HasPrefix(status(), "2 runs of 60 s") })
	}

	// On a telephone, a chart is in sight beside the last of the controls.
	tab.View(390, 844, false)
	visit("playground.html")
	shown()
	tab.Until("the first chart is above the control", func() bool {
		return browser.Evaluate[bool](tab, `document.getElementById("instances").scrollIntoView({ block: "end", behavior: "instant" }), (() => {
			const chart = document.querySelector("figure").getBoundingClientRect(), control = document.getElementById("instances").getBoundingClientRect();
			return chart.top >= 0 && chart.bottom <= control.top && control.bottom <= innerHeight;
		})()`)
	})
	tab.Screenshot("site-play-beside")
	tab.View(1280, 900, false)
	visit("playground.html")
	shown()

	var figures struct{ Shown, Took string }
	testrig.Must(t, json.Unmarshal([]byte(browser.Evaluate[string](tab, `JSON.stringify(document.documentElement.dataset)`)), &figures))
	browser.Evaluate[bool](tab, `new PerformanceObserver((list) => {
		window.busy = Math.max(window.busy ?? 0, ...list.getEntries().map((e) => e.duration));
	}).observe({ type: "longtask", buffered: true }), true`)
	time.Sleep(200 * time.Millisecond) // it tells later
	longest := browser.Evaluate[float64](tab, `window.busy ?? 0`)
	t.Logf("the page was busy for %v ms at most", longest)
	t.Logf("first frame after %s ms, a minute of scenario twice in %s ms, %d bytes", figures.Shown, figures.Took, info.Size())
}
