//go:build system

package proxypage_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/recording"

	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server/token"
)

// The page shows what happens, with numbers that agree, and does what is asked of it.
func TestPage(t *testing.T) {
	r := newRig(t, rules)
	r.load(t)
	tab := browser.Open(t, r.URL+"/", 1280, 900)
	until := func(what string, ok func() bool) { t.Helper(); tab.Until(what, ok) }

	until("it is live", has(tab, "status", "live"))
	until("the file is told", has(tab, "path", "rules.yaml"))
	until("the law is there", has(tab, "law", "×"))
	until("the origin's state is told", has(tab, "story", "Shedding: "))
	until("since when", has(tab, "since", "shedding for "))
	until("requests are rejected", func() bool { return number(tab.Text("rejected")) > 0 })
	until("the reason is told", has(tab, "reasons", "queue_full"))
	until("rules deny", func() bool { return number(tab.Text("denied")) > 0 })
	until("the story names the rule", has(tab, "story", "logins"))
	until("shadow mode tells what it would reject", has(tab, "classes", "shadow would reject"))
	until("the shadow rule tells what it would deny", func() bool { return number(tab.Text("would")) > 0 })
	until("the cache is told", has(tab, "classes", "% hits"))
	until("requests wait", func() bool { return number(tab.Text("waiting")) > 0 })
	until("the pressure is told", has(tab, "pressure", "0 % of 40 %"))
	until("the slow start is told", has(tab, "classes", "slow start after 1h"))
	until("waits are told", has(tab, "waits", "≤ "))
	until("wasted work is told", func() bool { return number(tab.Text("wasted")) > 0 })
	until("the story names the class that rejects", has(tab, "story", "reports"))
	until("abandoned work is told", func() bool { return number(tab.Text("abandoned")) > 0 })
	for range 5 {
		before := tab.Text("law")
		until("the numbers move", func() bool { return tab.Text("law") != before })
		s := browser.Evaluate[shown](tab, readPage)
		consistent(t, &s)
		if t.Failed() {
			tab.Screenshot("disagrees")
			t.Fatalf("%+v", s)
		}
	}
	tab.Screenshot("page")
	tab.View(1280, 2000, false)
	tab.Screenshot("whole")
	tab.View(1280, 900, false)

	// An explanation is of what the form says, whatever that is.
	explain := func(what, url, headers, want string) {
		t.Helper()
		browser.Evaluate[string](tab, fmt.Sprintf(`document.getElementById("url").value = %q`, url))
		browser.Evaluate[string](tab, fmt.Sprintf(`document.getElementById("headers").value = %q`, headers))
		tab.Click("explain")
		until(what, has(tab, "explanation", want))
	}
	explain("a class is explained", "/reports/7", "", "class reports")
	until("its route, too", has(tab, "explanation", "route /reports/"))
	until("and the rule", has(tab, "explanation", `address "192.0.2.1"`))
	browser.Evaluate[string](tab, `document.getElementById("method").value = "post"`)
	explain("a denial is explained", "/login", "X-Api-Key: new\nX-Other: 1", `Denied with 429 by the rule "logins"`)
	until("with its key", has(tab, "explanation", `header X-Api-Key "new"`))
	explain("a hostile request is text", "/<img src=x onerror=alert(1)>", `X-Api-Key: <script>document.title='broken'</script>`, "<script>document.title='broken'</script>")
	explain("a bad header is told", "/", "no header", `must be a line such as X-Api-Key: 42`)
	tab.WantError("status of 400")
	browser.Evaluate[bool](tab, `document.getElementById("explain").scrollIntoView(), true`)
	tab.Screenshot("explained")

	// Names and routes are text, whatever they say.
	until("the hostile rule is there", has(tab, "rules", `<img src=x onerror=alert(1)>`))
	until("the hostile route is there", has(tab, "rules", `/<script>document.title='broken'</script>`))
	if title := browser.Evaluate[string](tab, `document.title + document.scripts.length + document.images.length`); title != "weir proxy21" {
		t.Errorf("%q: a name has become part of the page", title)
	}

	bad := strings.Replace(rules, "rate: 5/m", "rat: 5/m", 1)
	r.text.Store(&bad)
	tab.Click("reload")
	until("a reload that fails says why", has(tab, "reloaded", "Nothing has changed: "))
	until("the error is shown in full", has(tab, "config-error", "rat"))
	until("with its place", has(tab, "config-error", "rules.yaml:5:"))
	until("the load has failed", has(tab, "load", "FAILED"))
	tab.Screenshot("failed-reload")
	tab.WantError("status of 422")
	good, hash := strings.Replace(rules, "rate: 5/m", "rate: 6/m", 1), tab.Text("hash")
	r.text.Store(&good)
	tab.Click("reload")
	until("a reload says what has changed", has(tab, "reloaded", "logins"))
	until("the error is gone", has(tab, "load", "ok"))
	until("other rules are in force", func() bool { return tab.Text("hash") != hash })
	until("the rule is another", has(tab, "rules", "6/m"))
	if focus := browser.Evaluate[string](tab, `document.activeElement.id`); focus != "reload" {
		t.Errorf("the focus is on %q", focus)
	}

	for _, v := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"narrow", 390, 900, false}, {"narrow-dark", 390, 3600, true}, {"dark", 1280, 900, true}, {"wide", 1600, 1000, false}} {
		tab.View(v.width, v.height, v.dark)
		until("the "+v.name+" page is not too wide", func() bool { // the plots follow a moment later
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		tab.Screenshot(v.name)
	}

	r.away()
	until("it says that there is no answer", has(tab, "status", "no answer"))
	tab.Errors() // the browser's own, of the connection
}

// The limit changes only after a confirmation.
func TestPageChange(t *testing.T) {
	r := newRig(t, "classes: [{name: reports, routes: [/reports/], limit: 2}]")
	tab := browser.Open(t, r.URL+"/", 1280, 900)
	tab.Until("it is live", has(tab, "status", "live"))
	fill := func(id, text string) {
		t.Helper()
		browser.Evaluate[string](tab, `document.getElementById("`+id+`").value = "`+text+`"`)
	}
	open := func() bool { return browser.Evaluate[bool](tab, `document.getElementById("confirm").open`) }

	tab.Click("change")
	tab.Until("nothing is nothing", has(tab, "changed", "Nothing to change"))
	fill("new-limit", "20")
	tab.Click("change")
	tab.Until("it asks", open)
	tab.Until("it says what changes", has(tab, "confirm-list", "Limit: from 8 to 20"))
	tab.Screenshot("confirm")
	tab.Click("confirm-no")
	tab.Until("the dialog is gone", func() bool { return !open() })
	if n := r.Settings().LimitNow; n != 8 {
		t.Errorf("the limit is %d: want that a cancelled change changes nothing", n)
	}
	tab.Click("change")
	tab.Until("it asks again", open)
	tab.Click("confirm-yes")
	tab.Until("it has changed", has(tab, "changed", "Changed default: limit 20"))
	if n := r.Settings().LimitNow; n != 20 {
		t.Errorf("the limit is %d: want 20", n)
	}
	tab.Until("the numbers follow", func() bool { return number(tab.Text("limit")) == 22 })

	fill("new-class", "reports")
	fill("new-limit", "aimd")
	fill("new-queue", "7")
	tab.Click("change")
	tab.Until("it asks about the class", open)
	tab.Until("with its name", has(tab, "confirm-title", "class reports"))
	tab.Until("and its queue", has(tab, "confirm-list", "Queue: from 4 to 7"))
	tab.Click("confirm-yes")
	tab.Until("the class has changed", has(tab, "changed", "Changed reports: limit aimd, queue 7"))

	fill("new-limit", "-5")
	tab.Click("change")
	tab.Until("it asks once more", open)
	tab.Click("confirm-yes")
	tab.Until("an error is told", has(tab, "changed", "nothing was changed"))
	tab.WantError("status of 400")
}

// An operator with a token gets the recording as a file, and the command that reads it; without a recording, the reason.
func TestPageRecording(t *testing.T) {
	set, err := token.Parse("tokens.yaml", []byte("tokens: [{name: ops, token: secret-of-the-operator, allow: [admin]}]"))
	testrig.Must(t, err)
	var guard token.Guard
	guard.Use(set)
	box, err := blackbox.New(blackbox.Config{Records: 10_000})
	testrig.Must(t, err)
	r := newRecordedRig(t, rules, box)
	r.load(t)
	srv := httptest.NewServer(httpserve.Private(operator.Guard(r.page, &guard, slog.New(slog.DiscardHandler)), true, nil))
	t.Cleanup(srv.Close)
	tab := browser.Open(t, "about:blank", 1280, 900)
	dir := t.TempDir()
	tab.Downloads(dir)
	tab.Visit(strings.Replace(srv.URL, "://", "://any:secret-of-the-operator@", 1) + "/") // the browser keeps the token
	tab.Visit(srv.URL + "/")
	tab.Until("requests are there", func() bool { return number(tab.Text("throughput")) > 0 })
	tab.Click("record")
	tab.Until("the command is told", has(tab, "recorded", "weirlab advise "))
	name := browser.Evaluate[string](tab, `document.querySelector("#recorded code").textContent.split(" ")[2]`)
	var f *os.File
	tab.Until("the file is there", func() bool { f, err = os.Open(filepath.Join(dir, name)); return err == nil })
	defer f.Close()
	in, err := recording.NewReader(f)
	testrig.Must(t, err)
	if first, err := in.Read(); err != nil || first.End == 0 {
		t.Errorf("%+v, %v", first, err)
	}
	for _, width := range []int64{1280, 390} {
		tab.View(width, 900, width == 390)
		browser.Evaluate[bool](tab, `document.getElementById("record-title").scrollIntoView(), true`)
		tab.Until("the page is not too wide", func() bool {
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		tab.Screenshot(fmt.Sprint("recording-", width))
	}

	tab.Visit(newRig(t, rules).URL + "/")
	tab.Click("record")
	tab.Until("the reason is told", has(tab, "recorded", "No recording: nothing is recorded: --records is 0"))
	tab.WantError("status of 404")
}

// An origin that fails is told.
func TestPageOriginFails(t *testing.T) {
	r := newRig(t, "classes: [{name: reports, routes: [/reports/], limit: 2}]")
	tab := browser.Open(t, r.URL+"/", 390, 900)
	tab.Until("it is healthy", has(tab, "story", "Healthy: "))
	tab.Until("there are no rules", has(tab, "rules", "There are no rules"))
	r.load(t)
	tab.Until("requests finish", has(tab, "law", "×"))
	tab.Until("both origins are there", has(tab, "origins", "http://b.test"))
	r.down.Store(true)
	tab.Until("an origin is ejected", has(tab, "origins", "ejected"))
	r.status.Store(503)
	tab.Until("the failure is told", has(tab, "story", "Failing: the origin answers 503"))
	tab.Until("since when", has(tab, "since", "failing for "))
	tab.Screenshot("fails")
}

// With as many rules and classes as a file may have, and long names, the page has an end, and
// fits a telephone.
func TestPageBounded(t *testing.T) {
	var file strings.Builder
	file.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&file, "  - {name: \"%064d\", by: header X-%s, rate: 1/s, routes: [\"/%s/%d\"]}\n", i, strings.Repeat("W", 50), strings.Repeat("W", 200), i)
	}
	file.WriteString("classes:\n")
	for i := range 100 {
		fmt.Fprintf(&file, "  - {name: \"%s%03d\", limit: 5, routes: [", strings.Repeat("W", 61), i)
		for j := range 20 {
			fmt.Fprintf(&file, "\"GET /%s/%d/%d\", ", strings.Repeat("V", 100), i, j)
		}
		file.WriteString("]}\n")
	}
	r := newRig(t, file.String())
	tab := browser.Open(t, r.URL+"/", 390, 900)
	tab.Until("rules are there", has(tab, "rules", "1/s, burst 1"))
	if n := browser.Evaluate[int](tab, `document.querySelectorAll("#rules tr, #classes tr").length`); n != 201 {
		t.Errorf("%d rows", n)
	}
	if n := browser.Evaluate[int](tab, `document.querySelectorAll("*").length`); n > 10_000 {
		t.Errorf("%d elements", n)
	}
	for _, width := range []int64{390, 1280} {
		tab.View(width, 900, false)
		tab.Until(fmt.Sprint("the page is not too wide for ", width), func() bool {
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		browser.Evaluate[bool](tab, `document.getElementById("classes-title").scrollIntoView(), true`)
		tab.Screenshot(fmt.Sprint("bounded-", width))
	}
}
