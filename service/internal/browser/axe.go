//go:build system

package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Violations returns what axe-core finds on the page, as JSON; [] if nothing.
func (tab *Tab) Violations() string {
	tab.t.Helper()
	gopath, err := exec.Command("go", "env", "GOPATH").Output()
	if err != nil {
		tab.t.Fatal(err)
	}
	axe, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(gopath)), "clients/axe-core/node_modules/axe-core/axe.min.js"))
	if err != nil {
		tab.t.Fatalf("%v: make need installs it", err)
	}
	Evaluate[bool](tab, string(axe)+`; window.found = ""; axe.run().then((r) => { window.found = JSON.stringify(r.violations.map((v) => ({ id: v.id, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)) }))) }), true`)
	tab.Until("axe has ended", func() bool { return Evaluate[bool](tab, `Boolean(window.found)`) })
	return Evaluate[string](tab, `window.found`)
}

// CheckPage checks the page on a desk and on a telephone, by day and by night: it is not too wide, axe-core finds nothing, its
// plots and its text have other colours by night, and nothing comes from elsewhere.
func (tab *Tab) CheckPage(name string) {
	tab.t.Helper()
	colours := map[bool]string{}
	for _, width := range []int64{1280, 390} {
		for _, night := range []bool{false, true} {
			at := fmt.Sprintf("%s-%d-%s", name, width, map[bool]string{false: "day", true: "night"}[night])
			tab.View(width, 900, night)
			tab.View(width, Evaluate[int64](tab, `document.documentElement.scrollHeight`), night) // all of it, for the screenshot
			if over := Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				tab.t.Errorf("%s: %d pixels too wide", at, over)
			}
			if found := tab.Violations(); found != "[]" {
				tab.t.Errorf("%s: %s", at, found)
			}
			colours[night] = Evaluate[string](tab, `["body", "section", "svg text", "svg path"].map((s) => { const c = getComputedStyle(document.querySelector(s)); return c.color + c.backgroundColor + c.fill }).join()`)
			tab.Screenshot(at)
		}
	}
	if colours[false] == colours[true] {
		tab.t.Errorf("%s has the same colours by night: %s", name, colours[true])
	}
	if other := Evaluate[string](tab, `performance.getEntriesByType("resource").map((e) => e.name).join()`); other != "" {
		tab.t.Errorf("%s loads %s", name, other)
	}
}
