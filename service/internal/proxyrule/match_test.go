package proxyrule_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A rule applies to its routes, and counts by its key.
func TestRules(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		requests []string // of which all but the last are allowed
	}{
		{"rate: 2/h", []string{"/", "/a X-Api-Key=a address=10.0.0.1", "/b"}},
		{"by: address, rate: 1/h", []string{"/ address=10.0.0.1", "/ address=10.0.0.2", "/ address=2001:db8::1", "/ address=2001:db8:0:0:9::1"}},
		{"by: header X-Api-Key, rate: 1/h", []string{"/ X-Api-Key=a", "/ X-Api-Key=b", "/ x-api-key=a"}},
		{"by: [header X-Api-Key, query key, address], rate: 1/h", []string{"/ X-Api-Key=a", "/?key=a", "/?key=&x=y", "/?x=1"}},
		{"by: [header X-Api-Key, address], rate: 1/h", []string{"/ X-Api-Key=127.0.0.1", "/", "/x"}},
		{"by: cookie session, rate: 1/h", []string{`/ Cookie="a=b; session=1"`, `/ Cookie="session=2"`, `/ Cookie="session=1; c=d"`}},
		{"by: cookie session, rate: 1/h", []string{"/", `/ Cookie="session="`}},
		{"by: host, rate: 1/h", []string{"/ Host=a.example", "/ Host=b.example", "/ Host=A.example."}},
		{"by: method, rate: 1/h", []string{"GET /", "POST /", "GET /b"}},
		{"by: route, rate: 1/h, routes: [/a/, /b/]", []string{"/c", "/c", "/a/1", "/b/1", "/a/2"}},
		{"by: address + route, rate: 1/h, routes: [/a/, /b/]", []string{"/a/1", "/b/1", "/a/2 address=10.0.0.1", "/a/3"}},
		{"by: [header A + header B], rate: 1/h", []string{"/ A=x B=yz", "/ A=xy B=z", "/ A=x", "/ B=y"}},
		{"rate: 1/h, routes: POST /login", []string{"/login", "POST /", "POST /login", "POST /login"}},
		{"rate: 1/h, except: [/healthz, /static/]", []string{"/healthz", "/static/x", "/static/y", "/", "/"}},
		{"rate: 1/h, routes: /api/, except: GET /api/free", []string{"/api/free", "/x", "/api/1", "POST /api/free"}},
		{"rate: 0/s", []string{"/"}},
		{"rate: 1/h, burst: 3", []string{"/", "/", "/", "/"}},
	} {
		rules := parsed(t, "rules:\n- {name: a, "+tt.rule+"}")
		m, err := httplimit.New(httplimit.Config{Exempt: []string{}, Rules: []httplimit.Rule{rules.Rules[0].Rule(rules.Rules[0].Buckets(nil))}})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for i, text := range tt.requests {
			w, want := httptest.NewRecorder(), 200
			if i == len(tt.requests)-1 {
				want = 429
			}
			if h.ServeHTTP(w, request(t, text)); w.Code != want {
				t.Errorf("%s: request %d, %s: %d: want %d", tt.rule, i, text, w.Code, want)
			}
		}
	}
}

// Buckets serve later versions of a rule that have the same key and memory.
func TestBucketsStay(t *testing.T) {
	rule := func(text string) *proxyrule.Rule { return &parsed(t, "rules:\n- {name: a, "+text+"}").Rules[0] }
	first := rule("by: address, rate: 1/h").Buckets(nil)
	for text, want := range map[string]bool{
		"by: [address], rate: 5/m, mode: shadow, routes: /x": true,
		"by: address, rate: 1/h, memory: 16MiB":              true,
		"by: address, rate: 1/h, memory: 1MiB":               false,
		"by: host, rate: 1/h":                                false,
		"rate: 1/h":                                          false,
	} {
		if got := rule(text).Buckets(first) == first; got != want {
			t.Errorf("%s: the same buckets %v: want %v", text, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	r := parsed(t, `
rules:
- {name: clients, by: [header X-Api-Key, address], rate: 100/m, burst: 20, except: /healthz}
- {name: logins, by: address + route, rate: 5/m, routes: POST /login, mode: shadow, max_wait: 2s}
classes:
- {name: reports, routes: [/reports/], limit: 5, queue: 20, max_wait: 2s, timeout: 60s, max_body: 64KiB, priority: sheddable, deadline: 3s, cache: {ttl: 10s}}
total: {limit: 100, queue: 50}
priority: {header: X-Priority, trust: 10.0.0.0/8}
tenants: {by: header X-Api-Key}
deadline: {header: grpc-timeout}
`)
	for text, want := range map[string]string{
		"POST /login X-Api-Key=abc address=10.1.2.3 X-Priority=critical_plus grpc-timeout=100m": `
POST /login from 10.1.2.3
  class default: limit of the flag --limit
  total of all classes: limit 100, 50 may wait
  rule clients: takes 1 token: 100/m, 20 at once, of header X-Api-Key "abc"
  rule logins: takes 1 token: 5/m, 5 at once, a request waits for at most 2s, of address "10.1.2.3" + route "POST /login"; shadow: changes nothing
  priority critical_plus; tenant header X-Api-Key "abc"; deadline 100ms, of the header grpc-timeout
`,
		"/reports/a?b=c grpc-timeout=9S": `
GET /reports/a?b=c from 127.0.0.1
  class reports (route "/reports/"): limit 5, 20 may wait, for at most 2s, time-out 1m0s, body of at most 64KiB, cache (ttl 10s, stale 0s)
  total of all classes: limit 100, 50 may wait
  rule clients: takes 1 token: 100/m, 20 at once, of address "127.0.0.1"
  rule logins does not apply: none of its routes matches
  priority sheddable; tenant none: requests without header X-Api-Key are one tenant; deadline 3s, of the class
`,
		"/healthz X-Api-Key=" + strings.Repeat("x", 300): `
GET /healthz from 127.0.0.1
  class default: limit of the flag --limit
  total of all classes: limit 100, 50 may wait
  rule clients does not apply: except has "/healthz"
  rule logins does not apply: none of its routes matches
  priority critical; tenant header X-Api-Key "(a long text, by its hash)"
`,
	} {
		x := r.Explain(request(t, text))
		if got := "\n" + x.Text(); got != want {
			t.Errorf("%s: %s: want %s", text, got, want)
		}
		if _, err := json.Marshal(x); err != nil {
			t.Error(err)
		}
	}
	for text, want := range map[string]string{
		"":                      "want a method and a path",
		"GET":                   "want a method and a path",
		"GET login":             `"login" is not a path`,
		"G(T /":                 `"G(T" is not a method`,
		"/ X-Api-Key":           `want a header as NAME=value`,
		"/ X@=a":                `"X@": is not the name of a header`,
		"/ address=home":        "address=home: must be unix: or an address",
		`/ A="b`:                "a quote does not end",
		"GET http://a.example/": "is not a path",
	} {
		if _, err := proxyrule.ParseRequest(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: want %s", text, err, want)
		}
	}
}
