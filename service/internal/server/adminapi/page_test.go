//go:build system

package adminapi_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// number is the number that the text of an element begins with, or -1.
func number(tab *browser.Tab, id string) float64 {
	text := strings.TrimSuffix(tab.Text(id), "/s")
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 64)
	if err != nil {
		return -1
	}
	return v
}

func has(tab *browser.Tab, id, want string) func() bool {
	return func() bool { return strings.Contains(tab.Text(id), want) }
}

// The page shows what happens, and does what is asked of it.
func TestPage(t *testing.T) {
	r := newRig(t, rules())
	r.load(t)
	tab := browser.Open(t, r.URL+"/", 1600, 1000)
	until := func(what string, ok func() bool) { t.Helper(); tab.Until(what, ok) }

	until("it is live", has(tab, "status", "live"))
	until("the config is told", has(tab, "hash", "3f2a90c1d5e7"))
	until("the rules are there", has(tab, "rules", "glob login:*"))
	until("requests are allowed", func() bool { return number(tab, "allowed") > 20 })
	until("others are denied", func() bool { return number(tab, "denied") > 5 })
	until("the reason is told", has(tab, "reasons", "over_rate"))
	until("the story names the rule", has(tab, "story", "by login (over_rate)"))
	until("the key that is refused most is first", func() bool {
		return strings.HasPrefix(browser.Evaluate[string](tab, `document.querySelector("#denied-keys").innerText`), "login:mallory")
	})
	until("somebody waits", func() bool { return number(tab, "waiting") > 0 })
	until("the queues are listed", has(tab, "queues", "mail:"))
	until("the shadow rule tells what it would do", has(tab, "rules", "would deny"))
	until("the candidate is compared", has(tab, "rules", "10/s: denies"))
	first := tab.Text("allowed") + tab.Text("waiting") + tab.Text("rules")
	until("the numbers move", func() bool { return tab.Text("allowed")+tab.Text("waiting")+tab.Text("rules") != first })

	// A key is text, whatever it says.
	until("the hostile key is there", has(tab, "denied-keys", `login:<script>document.title='broken'</script>`))
	until("what turns the direction is shown as what it is", has(tab, "denied-keys", `\u{202e}`))
	browser.Evaluate[bool](tab, `[...document.querySelectorAll("#denied-keys .key")].find(b => b.innerText.includes("script")).click() || true`)
	until("it is explained as text", has(tab, "explanation", "<img src=x onerror=alert(1)>"))
	if title := browser.Evaluate[string](tab, `document.title + document.scripts.length + document.images.length`); title != "weir serve21" {
		t.Errorf("%q: the key has become part of the page", title)
	}

	// An explanation describes one moment. The key may just have a token then: ask again.
	explained := func(what, key string, want ...string) {
		t.Helper()
		browser.Evaluate[string](tab, fmt.Sprintf(`document.getElementById("key").value = %q`, key))
		var asked time.Time
		until(what, func() bool {
			if time.Since(asked) > time.Second {
				asked = time.Now()
				tab.Click("explain")
			}
			text := tab.Text("explanation")
			return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(text, part) })
		})
	}
	explained("a denial and its rule are explained", "login:mallory",
		`Denied (over_rate) by the rule "login": allowed again in`, "Each matching key: 60/m, 0 of 60 left")
	explained("so is what shadow mode does", "batch:nightly", "in shadow mode")
	explained("so is what is allowed", "nobody", "Allowed.")
	tab.Screenshot("page")

	tab.Click("reload")
	until("a reload says what has changed", has(tab, "reloaded", "Loaded: 1 rule has changed: login"))
	r.fail(errFile)
	tab.Click("reload")
	until("a reload that fails says why", has(tab, "reloaded", "Nothing has changed: rules.yaml:12:5"))
	until("the config's error is shown in full", has(tab, "config-error", "> 12 |   rat: 5/m\n"))
	tab.Screenshot("failed-reload")
	tab.WantError("status of 422")
	r.fail(nil)
	tab.Click("reload")
	until("the error is gone", has(tab, "load", "ok"))

	// Numbers change while a row has the focus.
	tab.Click("order-file")
	until("the rules are in the order of the file", func() bool {
		return browser.Evaluate[string](tab, `[...document.querySelectorAll("#rules b")].map(b => b.textContent).join()`) ==
			"login,api,search,mail,batch,exports,everything else"
	})
	browser.Evaluate[bool](tab, `document.querySelector("#denied-keys .key").focus(), true`)
	first = tab.Text("denied-keys")
	until("the keys' numbers move", func() bool { return tab.Text("denied-keys") != first })
	if focus := browser.Evaluate[string](tab, `document.activeElement.innerText`); focus != "login:mallory" {
		t.Errorf("the focus is on %q", focus)
	}

	for _, v := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"narrow", 400, 900, false}, {"narrow-dark", 400, 900, true}, {"dark", 1600, 1000, true}, {"middle", 1280, 900, true}} {
		tab.View(v.width, v.height, v.dark)
		until("the "+v.name+" page is not too wide", func() bool { // the plot follows a moment later
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		tab.Screenshot(v.name)
	}

	r.away()
	until("it says that nobody answers", has(tab, "status", "no answer"))
	tab.Errors() // the browser's own, of the connection
}

// The page shows the upstream, the leaves and the members of the fleet.
func TestPageFleet(t *testing.T) {
	var tier server.TierStats
	tier.Away, tier.Reason, tier.Leaves, tier.Keys, tier.Assigned = true, errors.New("dial tcp 10.0.0.9:8080: connect: connection refused"), 3, 12, 10
	tier.Decisions[decider.Assigned], tier.Decisions[decider.Last] = 90_000, 4711
	api := adminapi.New(adminapi.Config{
		Server: newServer(t), Local: true, Peers: someFleet, Upstream: func() server.TierStats { return tier }, UpstreamURL: "http://10.0.0.9:8080",
		Store: func() server.StoreStats { return server.StoreStats{Instances: 1} },
	})
	t.Cleanup(api.Close)
	srv := httptest.NewServer(api)
	t.Cleanup(srv.Close)
	tab := browser.Open(t, srv.URL+"/", 1280, 900)
	for _, want := range []string{
		"1 instance shares the limits; no decisions yet", "away", "http://10.0.0.9:8080; dial tcp 10.0.0.9:8080: connect: connection refused; 10 of 12 keys have an assignment",
		"limits are divided among 3 leaves", "assigned 90,000 · last 4,711", "quorum", "this instance sees 2 of 3 members", "exact 40 · share 2",
	} {
		tab.Until("it says "+want, has(tab, "fleet-facts", want))
	}
	for _, want := range []string{"weir-0", "this instance", "http://10.0.0.2:8080", "other rules: 0123456789ab; its list lacks weir-2", "50.0 %", "0.4 ms", "dead", "connection refused"} {
		tab.Until("the members are told: "+want, has(tab, "peers", want))
	}
	for _, width := range []int64{1280, 390} {
		tab.View(width, 900, false)
		tab.Until("the page is not too wide", func() bool {
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		browser.Evaluate[bool](tab, `document.getElementById("fleet").scrollIntoView(), true`)
		tab.Screenshot(fmt.Sprint("fleet-", width))
	}
}

// Keys are told apart on a narrow page, the refused leases of a key are among the most
// rejected keys, and the story has the numbers of the tiles.
func TestPageKeys(t *testing.T) {
	r := newRig(t, rules())
	const alike = "login:eu-central-1/tenant-0000000000000042/customers/"
	key := func(n int) string { return alike + fmt.Sprintf("%06d/session", n) }
	for n := range 6 {
		decide(r.Server, 100+n, key(n))
	}
	r.every(t, 50*time.Millisecond, func(n int) {
		decide(r.Server, 1, key(n%6))
		_, _ = r.Acquire(t.Context(), decider.LeaseRequest{Key: "export:busy", N: 1}) // the fifth and later ones are refused
	})
	tab := browser.Open(t, r.URL+"/", 390, 1400)
	tab.Until("the refused leases are there", has(tab, "denied-keys", "export:busy"))
	for n := range 6 {
		tab.Until("the key is there", has(tab, "denied-keys", key(n)))
	}
	tab.Until("no key is cut", func() bool {
		return browser.Evaluate[bool](tab, `[...document.querySelectorAll("#denied-keys .key")].every(
			(k) => k.scrollWidth <= k.clientWidth && k.scrollHeight <= k.clientHeight && k.clientWidth > 300)`)
	})
	tab.Until("the story has the numbers of the tiles", func() bool {
		return browser.Evaluate[bool](tab, `(() => {
			const tile = (id) => document.getElementById(id).firstChild.textContent;
			return document.getElementById("story").textContent.includes(tile("denied") + " are denied and " + tile("refused") + " leases refused");
		})()`)
	})
	for _, v := range []struct {
		name  string
		width int64
		dark  bool
	}{{"keys-narrow", 390, false}, {"keys-narrow-dark", 390, true}, {"keys-wide", 1280, false}} {
		tab.View(v.width, 1400, v.dark)
		tab.Until("the page is not too wide", func() bool {
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		tab.Screenshot(v.name)
	}
}

// However many rules there are, and however long keys are, there is an end to
// what the page shows.
func TestPageBounded(t *testing.T) {
	many := &config.Rules{}
	for i := range 2000 {
		many.Rules = append(many.Rules, config.Rule{
			Name: fmt.Sprintf("rule %d", i), Glob: fmt.Sprintf("%d:*", i), Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Hour}},
		})
	}
	r := newRig(t, many)
	tab := browser.Open(t, r.URL+"/", 400, 900)
	tab.Until("rules are there", has(tab, "rules", "rule 7"))
	for i := range 2000 {
		decide(r.Server, 2+i%3, fmt.Sprintf("%d:%s", i, strings.Repeat("W", 200)))
	}
	decide(r.Server, 100_000, "1999:x")
	tab.Until("the rule that refuses is there, though it is the last", has(tab, "rules", "rule 1999"))
	tab.Until("the keys are there", has(tab, "denied-keys", ":WWWW"))
	if n := browser.Evaluate[int](tab, `document.querySelectorAll("#rules tr").length`); n != 100 {
		t.Errorf("%d rows of rules", n)
	}
	if n := browser.Evaluate[int](tab, `document.querySelectorAll("*").length`); n > 5000 {
		t.Errorf("%d elements", n)
	}
	if n := browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`); n > 0 {
		t.Errorf("the page is %d pixels too wide", n)
	}
}
