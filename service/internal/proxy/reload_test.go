package proxy_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
)

// A reload keeps the tokens, counts and limits of what stays. The last good rules stay in
// force as a whole if there is a mistake.
func TestReloadKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
rules: [{name: a, by: address, rate: 3/h}, {name: b, rate: 100/h}]
classes: [{name: x, routes: /x, limit: 3, queue: 0}]
`, proxy.Config{Transport: answers(200, s)})
		p.expect("/", 200, "")
		p.expect("/x", 200, "")
		if err := p.Set(proxy.Change{Class: new("x"), Limit: new(proxy.FixedLimit(2))}); err != nil {
			t.Fatal(err)
		}

		p.reload(`
rules: [{name: c, rate: 100/h}, {name: a, by: address, rate: 5/h, routes: /}]
classes: [{name: x, routes: [/x, /y], limit: 3, queue: 0, timeout: 9s}]
`)
		p.counted("a", 2, 0, 0)
		p.counted("c", 0, 0, 0)
		p.expect("/y", 200, "") // the token that is left
		p.expect("/y", 429, "over_rate")
		p.counted("a", 3, 1, 0)
		if c := p.class("x"); c.Admitted != 2 || c.Denied != 1 || c.Limit.LimitNow != 2 || time.Duration(c.Timeout) != 9*s {
			t.Errorf("%+v: want the counts and the limit that was set", c)
		}

		p.file.set("", errBadFile)
		if _, err := p.Reload(); !errors.Is(err, errBadFile) {
			t.Errorf("%v: want the mistake", err)
		}
		p.file.set("classes: [{name: x, routes: /x, limit: auto, min_limit: 3}, {name: z, routes: /z, limit: 0}]\nrules: [{name: a, rate: 0/s}", nil)
		if _, err := p.Reload(); err == nil {
			t.Error("a bad file is good")
		}
		p.expect("/y address=10.0.0.1", 200, "")
		f := p.Report().File
		if f.Reloads != 1 || f.Failures != 2 || !strings.Contains(f.Error, "proxy.yaml:") || f.Failed == nil || f.Path != "proxy.yaml" || len(f.Hash) != 12 {
			t.Errorf("%+v", f)
		}
		p.reload("classes: [{name: x, routes: /x, limit: 4, queue: 0}]")
		if f := p.Report().File; f.Error != "" || f.Reloads != 2 || f.Change != "rules: 2 removed (a, c); classes: 1 changed (x)" {
			t.Errorf("%+v", f)
		}
		if c := p.class("x"); c.Limit.LimitNow != 4 {
			t.Errorf("%+v: want the limit of the file", c.Limit)
		}
	})
}

// A limit that another file changes in part goes on from where it is.
func TestReloadKeepsLearnedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "classes: [{name: x, routes: /x, limit: aimd, initial_limit: 4}]", proxy.Config{Transport: answers(200, s)})
		for range 8 {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { p.send("/x") })
			}
			all.Wait()
		}
		learned := p.class("x").Limit.LimitNow
		if learned <= 5 {
			t.Fatalf("%d: want it to have grown", learned)
		}
		for _, rules := range []string{
			"classes: [{name: x, routes: /x, limit: aimd, initial_limit: 4, queue: 7}]",
			"classes: [{name: x, routes: /x, limit: aimd, initial_limit: 4, max_limit: 100}]",
			"classes: [{name: x, routes: /x, limit: aimd, initial_limit: 4, max_limit: 100}]\ntenants: {by: address}",
		} {
			p.reload(rules)
			if now := p.class("x").Limit.LimitNow; now != learned {
				t.Errorf("%s: %d: want %d", rules, now, learned)
			}
		}
		p.reload("classes: [{name: x, routes: /x, limit: aimd, max_limit: 3}]")
		if now := p.class("x").Limit.LimitNow; now != 3 {
			t.Errorf("%d: want 3, its bound", now)
		}
		p.reload("classes: [{name: x, routes: /x, limit: vegas}]")
		if now := p.class("x").Limit.LimitNow; now == 3 {
			t.Errorf("%d: want another algorithm to begin anew", now)
		}
	})
}

// Requests in flight and in the queue end in the limiter in which they began.
func TestReloadWithRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "classes: [{name: x, routes: /x, limit: 1, queue: 1, max_wait: 0s}]", proxy.Config{Transport: answers(200, 2*s)})
		var all sync.WaitGroup
		start := func(text string, status int) {
			all.Go(func() {
				if w := p.send(text); w.Code != status {
					t.Errorf("%s: %d: want %d", text, w.Code, status)
				}
			})
			synctest.Wait()
		}
		start("/x", 200)
		start("/x", 200) // waits
		p.reload("classes: [{name: x, routes: [/x, /y], limit: 1, queue: 1, max_wait: 0s, timeout: 9s}]\nrules: [{name: a, rate: 9/s}]")
		start("/y", 503) // the limiter is the same
		p.reload("mode: enforce")
		if st := p.Stats(); st.Inflight != 1 || st.Waiting != 1 || p.Idle() {
			t.Errorf("%+v: want the requests of the class that is gone", st.Stats)
		}
		p.reload("classes: [{name: x, routes: /x, limit: 1, queue: 0}]")
		start("/x", 200)
		start("/x", 503)
		if st := p.Stats(); st.Inflight != 2 || st.Waiting != 1 {
			t.Errorf("%+v: want the requests of both limiters", st.Stats)
		}
		all.Wait()
		if st := p.Stats(); st.Inflight != 0 || st.Waiting != 0 || st.Admitted != 3 || !p.Idle() {
			t.Errorf("%+v: want nothing in flight", st.Stats)
		}
	})
}

// A request that waits for a rule is counted after a reload, too.
func TestReloadWhileRulesDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "rules: [{name: a, rate: 1/s, max_wait: 5s}]", proxy.Config{Transport: answers(200, s)})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { p.expect("/", 200, "") })
		}
		synctest.Wait()
		p.counted("a", 1, 0, 0)
		for range 3 {
			p.reload("rules: [{name: a, rate: 1/s, max_wait: 5s}]")
		}
		all.Wait()
		p.counted("a", 3, 0, 0)
		p.reload("mode: enforce")
		p.reload("rules: [{name: a, rate: 1/s, max_wait: 5s}]")
		p.counted("a", 0, 0, 0)
	})
}

// Requests, reloads, settings and reports go on at the same time, and nothing stays behind.
func TestReloadsUnderLoad(t *testing.T) {
	files := []string{
		"rules: [{name: a, by: address, rate: 1000/s}]\nclasses: [{name: x, routes: /x, limit: 3, cache: {ttl: 1ms}}]\ntotal: {limit: 5}",
		"mode: shadow\nclasses: [{name: y, routes: /x, limit: auto}]\ntenants: {by: address}",
		"rules: [{name: a, by: host, rate: 10/s, max_wait: 1ms}]\ndeadline: {header: D}\npriority: {header: P}",
		"rules: [", // a mistake
	}
	p := withRules(t, files[0], proxy.Config{Transport: answers(200, time.Millisecond)})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				p.send([]string{"/x", "/ D=1ms", "/x P=sheddable", "/y"}[i%4])
			}
		})
	}
	all.Go(func() {
		for i := range 60 {
			p.file.set(files[i%len(files)], nil)
			_, _ = p.Reload()
			_ = p.Set(proxy.Change{Limit: new(proxy.FixedLimit(i))})
			p.Report()
			fetch(p.Admin(), "/metrics")
		}
	})
	all.Wait()
	testrig.Eventually(t, "everything has ended", func() bool { st := p.Stats(); return st.Inflight == 0 && st.Waiting == 0 && st.Abandoned == 0 })
	r := p.Report()
	st := p.Stats()
	var rejected uint64
	for _, n := range st.Rejected {
		rejected += n
	}
	var ended uint64
	for _, n := range st.Outcomes {
		ended += n
	}
	if ended != st.Admitted || r.File.Reloads != 45 || r.File.Failures != 15 {
		t.Errorf("%+v, %+v: want all that were admitted to have ended", st.Stats, r.File)
	}
}

func TestReloadByOperator(t *testing.T) {
	p := withRules(t, "mode: shadow", proxy.Config{})
	post := func(want int) map[string]any {
		t.Helper()
		w := httptest.NewRecorder()
		p.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != want {
			t.Errorf("%d, %s: want %d", w.Code, w.Body, want)
		}
		return got
	}
	p.file.set("mode: enforce", nil)
	if got := post(200); got["change"] != "rules: as before; classes: as before; changed: mode" || got["hash"] == "" {
		t.Errorf("%v", got)
	}
	p.file.set("mode: x", nil)
	if got := post(422); !strings.Contains(got["error"].(string), "proxy.yaml:1:7: mode") {
		t.Errorf("%v", got)
	}
	var report proxy.Report
	if err := json.Unmarshal(fetch(p.Admin(), "/-/status").Body.Bytes(), &report); err != nil || report.File.Failures != 1 || report.Mode != "enforce" {
		t.Errorf("%v, %+v", err, report)
	}
	if w := fetch(newProxy(t, proxy.Config{}).Admin(), "/-/status"); w.Code != 200 || strings.Contains(w.Body.String(), `"file"`) || !strings.Contains(w.Body.String(), `"classes":[{"name":"default"`) {
		t.Errorf("without a file: %d, %s", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	newProxy(t, proxy.Config{}).Admin().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
	if w.Code != 404 {
		t.Errorf("without a file: %d", w.Code)
	}
}
