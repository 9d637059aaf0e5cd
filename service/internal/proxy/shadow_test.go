package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/service/internal/proxy"
)

// In shadow mode, nothing has an effect on a request, and everything is counted.
func TestShadow(t *testing.T) {
	const rules = `
rules: [{name: clients, by: address, rate: 1/h}]
classes: [{name: slow, routes: /slow, limit: 1, queue: 5, deadline: 1s, timeout: 1s, cache: {ttl: 1h}}]
`
	for name, tt := range map[string]struct {
		rules string
		flag  bool
	}{"flag": {rules, true}, "file": {"mode: shadow\n" + rules, false}} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			p := withRules(t, tt.rules, proxy.Config{Shadow: tt.flag, Limit: proxy.FixedLimit(1), Transport: origin(func(r *http.Request) (*http.Response, error) {
				asked++
				return answers(200, 2*s)(r)
			})})
			var all sync.WaitGroup
			for _, path := range []string{"/slow", "/slow", "/", "/"} {
				all.Go(func() {
					if w := p.expect(path, 200, ""); w.Header().Get("RateLimit") != "" || w.Header().Get("Cache-Status") != "" {
						t.Errorf("%s: %v: the client is told", name, w.Header())
					}
				})
				synctest.Wait()
			}
			all.Wait()
			p.counted("clients", 1, 0, 3)
			slow, other := p.class("slow"), p.class("default")
			if slow.WouldReject["over_limit"] != 1 || other.WouldReject["over_limit"] != 1 || slow.Admitted != 2 || slow.Mode != "shadow" || asked != 4 {
				t.Errorf("%s: %+v, %+v, asked %d times", name, slow, other, asked)
			}
			if r := p.Report(); r.Mode != "shadow" {
				t.Errorf("%s: mode %s", name, r.Mode)
			}
			want(t, p.Proxy, 0, 0)
		})
	}
}

// A rule or a class in shadow mode has no effect beside others that have.
func TestShadowOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
rules:
- {name: trial, by: address, rate: 1/h, mode: shadow}
- {name: real, by: address, rate: 3/h}
classes:
- {name: trial, routes: /trial, limit: 0, mode: shadow}
`, proxy.Config{Transport: answers(200, s)})
		w := p.expect("/trial", 200, "")
		if got := w.Header().Get("RateLimit"); !strings.Contains(got, "real") || strings.Contains(got, "trial") {
			t.Errorf("RateLimit: %s: want the rule real alone", got)
		}
		p.expect("/", 200, "")
		p.expect("/", 200, "")
		p.expect("/", 429, "over_rate")
		p.counted("trial", 1, 0, 3)
		p.counted("real", 3, 1, 0)
		if c := p.class("trial"); c.WouldReject["over_limit"] != 1 || c.Admitted != 1 {
			t.Errorf("%+v", c)
		}
	})
}
