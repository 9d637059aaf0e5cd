//go:build system

package external

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/service/internal/browser"
)

// A rejected request gets a page in a browser, and a problem document in a program.
// Scripts can read the headers.
func TestBrowser(t *testing.T) {
	s := newSite(t, httplimit.Config{Rules: []httplimit.Rule{byKey(t, gcra.Per(1, time.Hour, 2))}}, page)
	mux := http.NewServeMux()
	mux.Handle("/limited", s)
	mux.HandleFunc("/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := httptest.NewServer(mux)
	defer server.Close()
	tab := browser.Open(t, server.URL+"/limited", 800, 600)
	if title := browser.Evaluate[string](tab, `document.title`); title != "welcome" {
		t.Errorf("the page is %q: want the handler's", title)
	}
	wantFetch(t, tab, "200", `"per-key";q=2;w=7200`, `"per-key";r=0;t=3600`, "null", "text/html; charset=utf-8")
	wantFetch(t, tab, "429", `"per-key";q=2;w=7200`, `"per-key";r=0;t=3600`, "3600", "application/problem+json")

	browser.Evaluate[bool](tab, `location.reload() || true`)
	tab.Until("the page is that of the refusal", func() bool {
		return browser.Evaluate[string](tab, `document.readyState + document.title`) == "completeToo Many Requests"
	})
	if status := browser.Evaluate[int](tab, `performance.getEntriesByType("navigation")[0].responseStatus`); status != 429 {
		t.Errorf("the page's status is %d", status)
	}
	text := browser.Evaluate[string](tab, `document.body.innerText`)
	for _, part := range []string{"Too Many Requests", "more requests than allowed", "try again in 60 minutes"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page says %q: want %q", text, part)
		}
	}
	tab.Screenshot("limited")
	tab.View(360, 640, true)
	tab.Screenshot("limited-dark-phone")
	if n := s.runs.Load(); n != 2 {
		t.Errorf("the handler has run %d times", n)
	}
	refusals := 0
	tab.Until("the console tells of both refusals", func() bool {
		for _, e := range tab.Errors() {
			if !strings.Contains(e, "429") {
				t.Error(e)
			}
			refusals++
		}
		return refusals >= 2
	})
}

func page(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("<!doctype html><title>welcome</title><h1>welcome</h1>"))
}

// wantFetch lets a script in the page send a request, and checks the status,
// RateLimit-Policy, RateLimit, Retry-After and Content-Type.
func wantFetch(t *testing.T, tab *browser.Tab, want ...string) {
	t.Helper()
	browser.Evaluate[bool](tab, `window.seen = "", fetch("/limited").then(r => { window.seen = [r.status].concat(
		["RateLimit-Policy", "RateLimit", "Retry-After", "Content-Type"].map(name => String(r.headers.get(name)))).join("|") }), true`)
	var seen string
	tab.Until("the script has its answer", func() bool {
		seen = browser.Evaluate[string](tab, `window.seen`)
		return seen != ""
	})
	if got := hours.ReplaceAllString(seen, "${1}3600"); got != strings.Join(want, "|") {
		t.Errorf("the script sees %s, want %s", seen, strings.Join(want, "|"))
	}
}

// hours matches an hour, or slightly less because of the time that has passed.
var hours = regexp.MustCompile(`(t=|\|)35\d\d`)
