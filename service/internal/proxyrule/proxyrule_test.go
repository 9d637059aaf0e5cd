package proxyrule_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

func parsed(t testing.TB, text string) *proxyrule.Rules {
	t.Helper()
	r, err := proxyrule.Parse("a.yaml", []byte(text))
	testrig.Must(t, err)
	return r
}

func request(t testing.TB, text string) *http.Request {
	t.Helper()
	r, err := proxyrule.ParseRequest(text)
	testrig.Must(t, err)
	return r
}

// Each mistake is reported with its place and its cure, and all of them at once.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "a.yaml:1:1: want one document, with rules: or classes:"},
		{"mode: shadows", `a.yaml:1:7: mode = "shadows": must be enforce or shadow`},
		{"mods: shadow", `a.yaml:1:1: mods: unknown field; known are classes, deadline, default, fields, health_interval, health_path, max_pressure, mode, priority, rules, tenants, total: did you mean mode?`},
		{"fields: all", `a.yaml:1:9: fields = "all": must be draft, x, x_unix, draft_x, draft_next or none`},
		{"max_pressure: 1", `a.yaml:1:15: max_pressure = 1: must be >= 0 and < 1: a share of the time; 0: no bound`},
		{"max_pressure: .nan", `max_pressure = .nan: want a number`},
		{"classes:\n- {name: a, routes: /, limit: 5, slow_start: -1s}", `classes[0].slow_start = -1s: must be from 0s`},
		{"classes:\n- {name: a, routes: /, limit: vegas, max_healthy_latency: 1s}", `classes[0].max_healthy_latency: must be left out with the limit vegas: it is for auto and aimd`},
		{"classes:\n- {name: a, routes: /, slow_start: 1m}", `classes[0].slow_start: must be left out without limit`},
		{"rules:\n- {name: a}", `a.yaml:2:3: rules[0].rate: must be given, such as 100/m`},
		{"rules:\n- {rate: 1/s}", `a.yaml:2:3: rules[0].name: must be given`},
		{"rules:\n- {name: é, rate: 1/s}", `rules[0].name = "é": must be 1 to 64 printable ASCII characters`},
		{"rules:\n- {name: a, rate: 1/s}\n- {name: a, rate: 1/s}", `a.yaml:3:10: rules[1].name = "a": is also the name at a.yaml:2:10`},
		{"rules:\n- {name: a, rate: 100}", `a.yaml:2:19: rules[0].rate = "100": want a whole number, a slash and a period`},
		{"rules:\n- {name: a, rate: 1/month}", `a.yaml:2:19: rules[0].rate = 1/month: must have another period: months differ in length`},
		{"rules:\n- {name: a, rate: 1/s, by: addres}", `a.yaml:2:28: rules[0].by = "addres": want address, route, method, host, header NAME`},
		{"rules:\n- {name: a, rate: 1/s, by: [header]}", `rules[0].by[0] = "header": want the name of a header after it, such as header X-Api-Key`},
		{"rules:\n- {name: a, rate: 1/s, by: address x}", `rules[0].by = "address x": want nothing after address`},
		{"rules:\n- {name: a, rate: 1/s, by: route}", `rules[0].by = "route": needs routes`},
		{"rules:\n- {name: a, rate: 1/s, by: []}", `rules[0].by: must have a source`},
		{"rules:\n- {name: a, rate: 1/s, by: [address, address]}", `rules[0].by = "address": must not be there twice`},
		{"rules:\n- {name: a, limit: 0}", `rules[0].limit = 0: must be from 1 to 1000000`},
		{"rules:\n- {name: a, limit: auto}", `rules[0].limit = auto: want a whole number`},
		{"rules:\n- {name: a, limit: 1, rate: 1/s}", `a.yaml:2:29: rules[0].rate: must be left out with limit`},
		{"rules:\n- {name: a, limit: 1, burst: 5}", `rules[0].burst: must be left out with limit`},
		{"rules:\n- {name: a, limit: 1, max_wait: 5s}", `rules[0].max_wait: must be left out with limit`},
		{"rules:\n- {name: a, rate: 1/s, burst: 0}", `rules[0].burst = 0: must be from 1 to 1000000000000`},
		{"rules:\n- {name: a, rate: 1/s, memory: 1MiB}", `rules[0].memory: must be left out without by`},
		{"rules:\n- {name: a, rate: 1/s, by: host, memory: 1KiB}", `rules[0].memory = 1KiB: must be from 64KiB`},
		{"rules:\n- {name: a, rate: 1/s, max_wait: -1s}", `rules[0].max_wait = -1s: must be from 0s to 24h0m0s`},
		{`rules: [{name: a, rate: 1/s, routes: ['connect /']}]`, `rules[0].routes[0] = "connect /": must have its method in upper case`},
		{`rules: [{name: a, rate: 1/s, routes: ['CONNECT /']}]`, `rules[0].routes[0] = "CONNECT /": must have another method`},
		{`rules: [{name: a, rate: 1/s, routes: ['/api/*']}]`, `rules[0].routes[0] = "/api/*": must have no *: /api/ is all paths below it, and /{id} is one element: it would match no request`},
		{`rules: [{name: a, rate: 1/s, routes: ['post /login']}]`, `rules[0].routes[0] = "post /login": must have its method in upper case`},
		{`rules: [{name: a, rate: 1/s, routes: ['Example.com/']}]`, `rules[0].routes[0] = "Example.com/": must have its host in lower case`},
		{`rules: [{name: a, rate: 1/s, routes: ['example.com./']}]`, `rules[0].routes[0] = "example.com./": must have its host in lower case, without a dot at the end`},
		{`rules: [{name: a, rate: 1/s, routes: ['example.com:81/']}]`, `rules[0].routes[0] = "example.com:81/": must have its host without a port`},
		{`rules: [{name: a, rate: 1/s, routes: ["[::1]:81/"]}]`, `rules[0].routes[0] = "[::1]:81/": must have its host without a port`},
		{`rules: [{name: a, rate: 1/s, routes: ['/q?a=1']}]`, `rules[0].routes[0] = "/q?a=1": must have a path without a query`},
		{`rules: [{name: a, rate: 1/s, routes: ['/a#b']}]`, `rules[0].routes[0] = "/a#b": must have a path without a query`},
		{`rules: [{name: a, rate: 1/s, routes: ['/a%2Fb']}]`, `rules[0].routes[0] = "/a%2Fb": must have a path without %2F`},
		{`rules: [{name: a, rate: 1/s, routes: ['/a//b']}]`, `rules[0].routes[0] = "/a//b": must have a path without //, . and ..`},
		{`rules: [{name: a, rate: 1/s, routes: ['/a/../b']}]`, `rules[0].routes[0] = "/a/../b": must have a path without //, . and ..`},
		{`rules: [{name: a, rate: 1/s, routes: ['GET /a/./b']}]`, `rules[0].routes[0] = "GET /a/./b": must have a path without //, . and ..`},
		{"rules:\n- {name: a, rate: 1/s, routes: [POST login]}", `rules[0].routes[0] = "POST login": must be a pattern such as /path/, "GET /users/{id}" or example.com/`},
		{"rules:\n- {name: a, rate: 1/s, routes: []}", `rules[0].routes: must have a pattern, or be left out`},
		{"rules:\n- {name: a, rate: 1/s, routes: [/a, /a]}", `rules[0].routes[1] = "/a": must not be there twice`},
		{"rules:\n- {name: a, rate: 1/s, except: /}", `rules[0].except: must leave a request`},
		{"rules:\n- {name: a, rate: 1/s, routes: /a, except: [/b, /a]}", `rules[0].except: must leave a request`},
		{"classes:\n- {name: default, routes: /}", `classes[0].name = "default": must be another`},
		{"classes:\n- {name: total, routes: /}", `classes[0].name = "total": must be another`},
		{"classes:\n- {name: a}", `classes[0].routes: must be given: patterns such as`},
		{"classes:\n- {name: a, routes: /}\n- {name: b, routes: /}", `a.yaml:3:21: classes[1].routes = "/": must not conflict with "/": / matches the same requests as /; that one is in line 2`},
		{"classes:\n- {name: a, routes: /a/}\n- {name: b, routes: GET /}", `must not conflict with "/a/": GET / matches fewer methods than /a/, but has a more general path pattern; that one is in line 2: make one of the two narrower, for example by a method`},
		{"classes:\n- {name: a, routes: /, queue: 1}", `classes[0].queue: must be left out without limit`},
		{"classes:\n- {name: a, routes: /, limit: many}", `classes[0].limit = "many": must be auto, aimd, vegas, gradient2 or a whole number >= 0`},
		{"classes:\n- {name: a, routes: /, limit: 5, max_limit: 7}", `classes[0].max_limit: must be left out with a limit that is a number`},
		{"classes:\n- {name: a, routes: /, limit: auto, max_limit: 3, min_limit: 4}", `classes[0].min_limit = 4: must be at most max_limit, which is 3`},
		{"classes:\n- {name: a, routes: /, limit: auto, max_limit: 3, initial_limit: 4}", `classes[0].initial_limit = 4: must be at most max_limit, which is 3`},
		{"classes:\n- {name: a, routes: /, limit: auto, min_limit: 3, initial_limit: 2}", `classes[0].initial_limit = 2: must be at least min_limit, which is 3`},
		{"classes:\n- {name: a, routes: /, limit: 5, queue: -1}", `classes[0].queue = -1: must be from 0 to 1000000`},
		{"classes:\n- {name: a, routes: /, limit: 5, max_wait: -1s}", `classes[0].max_wait = -1s: must be from 0s`},
		{"classes:\n- {name: a, routes: /, timeout: 30}", `classes[0].timeout = 30: want a duration with its unit`},
		{"classes:\n- {name: a, routes: /, deadline: 0s}", `classes[0].deadline = 0s: must be from 1ns`},
		{"classes:\n- {name: a, routes: /, priority: high}", `classes[0].priority = "high": want sheddable, sheddable_plus, critical, critical_plus`},
		{"classes:\n- {name: a, routes: POST /, cache: {ttl: 1s}}", `classes[0].cache: must be left out: only responses to GET and HEAD are kept`},
		{"classes:\n- {name: a, routes: /, cache: {max_body: 2MiB, memory: 1MiB}}", `classes[0].cache.max_body = 2MiB: must be at most memory, which is 1MiB`},
		{"classes:\n- {name: a, routes: /, cache: {vary: [a, '*/*']}}", `classes[0].cache.vary[1] = "*/*": must be the name of a header`},
		{"default: {name: x}", `default.name: must be left out`},
		{"default: {routes: /}", `default.routes: must be left out`},
		{"total: {queue: 3}", `total.limit: must be given`},
		{"priority: {}", `priority.header: must be given`},
		{"priority: {header: a b}", `priority.header = "a b": must be the name of a header`},
		{"priority: {header: a, levels: {x: y}}", `priority.levels.x = "y": want sheddable`},
		{"priority: {header: a, trust: 10/8}", `priority.trust = "10/8": want an address or a network`},
		{"tenants: {weights: {a: 1}}", `tenants.by: must be given`},
		{"tenants: {by: address, weights: {a: 0}}", `tenants.weights.a = 0: must be from 1 to 1000`},
		{"tenants: {by: route}", `tenants.by = "route": needs routes`},
		{"health_path: healthz", `health_path = "healthz": must be a path that begins with /, or empty: no checks`},
		{"health_path: 'http://a/'", `health_path = "http://a/": must be a path`},
		{"health_interval: 5ms", `health_interval = 5ms: must be from 100ms`},
		{"deadline: {header: ''}", `deadline.header = "": must be the name of a header`},
		{"deadline: {header: a, max: -1s}", `deadline.max = -1s: must be from 0s`},
		{"rules:\n- {rate: 1/s}\nmode: x", "rules[0].name: must be given\na.yaml:3:7: mode"},
	} {
		_, err := proxyrule.Parse("a.yaml", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n%v\nwant %s", tt.text, err, tt.want)
		}
	}
	many := "rules:\n" + strings.Repeat("- {name: a, rate: 1/s}\n", proxyrule.MaxRules+1)
	if _, err := proxyrule.Parse("a.yaml", []byte(many)); err == nil || !strings.Contains(err.Error(), "rules = 101: must be at most 100") {
		t.Errorf("%v: want a bound of the rules", err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := proxyrule.Load(dir); err == nil || !strings.Contains(err.Error(), "is a directory: want a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := proxyrule.Load(dir + "/none.yaml"); err == nil || !strings.Contains(err.Error(), "none.yaml: no such file") {
		t.Errorf("no file: %v", err)
	}
	testrig.Must(t, os.WriteFile(dir+"/large.yaml", make([]byte, 2<<20), 0o666))
	if _, err := proxyrule.Load(dir + "/large.yaml"); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("a large file: %.100v", err)
	}
}

// The kind of a file follows from its fields.
func TestRecognize(t *testing.T) {
	for text, want := range map[string]bool{
		"mode: shadow":                                 true,
		"rules: [{name: a, rate: 1/s}]":                true,
		"rules: [{name: a, by: address}]":              true,
		"classes: []":                                  true,
		"default: {max_body: 1MiB}":                    true,
		"rules: [{key: a, rate: 1/s}]":                 false,
		"rules: [{glob: a, concurrency: {}}]":          false,
		"rules: []":                                    false,
		"apply: all\nrules: []":                        false,
		"domain: a\ndescriptors: []":                   false,
		"[{\"pattern\": \"a\", \"rate\": 5}]":          false,
		"":                                             false,
		"rules: {":                                     false,
		"rules: [7, {entries: {a: b}, rate: 1}]":       false,
		"rules: [{glob: a, rate: 1/s}, {rate: 1/s}]":   false, // has forgotten a key
		"rules: [{name: a, rate: 1/s}, {by: address}]": true,
	} {
		if got := proxyrule.Recognize("a.yaml", []byte(text)); got != want {
			t.Errorf("%s: %v: want %v", text, got, want)
		}
	}
}

// The header raises the priority of trusted clients alone, and lowers that of any.
func TestPriority(t *testing.T) {
	named := parsed(t, "priority: {header: X-P, trust: [10.0.0.0/8, '2001:db8::/32', unix]}").Reader()
	mapped := parsed(t, "priority: {header: X-P, levels: {gold: critical_plus, Trial: sheddable}, trust: 10.1.1.1}").Reader()
	none := parsed(t, "mode: enforce").Reader()
	for _, tt := range []struct {
		reader  *proxyrule.Reader
		request string
		of      weir.Priority
		want    weir.Priority
	}{
		{named, "/ address=10.2.3.4 X-P=critical_plus", weir.Critical, weir.CriticalPlus},
		{named, "/ address=10.2.3.4:555 X-P=Critical_Plus", weir.Critical, weir.CriticalPlus},
		{named, "/ address=2001:db8::9 X-P=critical", weir.Sheddable, weir.Critical},
		{named, "/ address=11.2.3.4 X-P=critical_plus", weir.Critical, weir.Critical},
		{named, "/ address=11.2.3.4 X-P=critical", weir.Sheddable, weir.Sheddable},
		{named, "/ address=11.2.3.4 X-P=sheddable", weir.Critical, weir.Sheddable},
		{named, "/ address=10.2.3.4 X-P=much", weir.Sheddable, weir.Sheddable},
		{named, "/ address=unix: X-P=critical_plus", weir.Critical, weir.CriticalPlus},
		{mapped, "/ address=unix: X-P=gold", weir.Critical, weir.Critical},
		{named, "/ address=10.2.3.4", weir.SheddablePlus, weir.SheddablePlus},
		{mapped, "/ address=10.1.1.1 X-P=GOLD", weir.Critical, weir.CriticalPlus},
		{mapped, "/ address=10.1.1.2 X-P=gold", weir.Critical, weir.Critical},
		{mapped, "/ address=10.1.1.2 X-P=trial", weir.Critical, weir.Sheddable},
		{mapped, "/ address=10.1.1.1 X-P=critical_plus", weir.Critical, weir.Critical}, // not a value of the map
		{none, "/ X-P=critical_plus", weir.Sheddable, weir.Sheddable},
	} {
		if got := tt.reader.Priority(request(t, tt.request), tt.of); got != tt.want {
			t.Errorf("%s, class %v: %v: want %v", tt.request, tt.of, got, tt.want)
		}
	}
}

func TestDeadline(t *testing.T) {
	own := parsed(t, "deadline: {header: X-Request-Deadline, max: 1h}").Reader()
	grpc := parsed(t, "deadline: {header: Grpc-Timeout}").Reader()
	for _, tt := range []struct {
		reader *proxyrule.Reader
		value  string
		want   time.Duration // -1: none
	}{
		{own, "250", 250 * time.Millisecond}, {own, "1.5s", 1500 * time.Millisecond}, {own, "0", 0}, {own, "5h", time.Hour},
		{own, "-1s", -1}, {own, "soon", -1}, {own, "1e3", -1}, {own, strings.Repeat("9", 40), -1},
		{grpc, "100m", 100 * time.Millisecond}, {grpc, "2S", 2 * time.Second}, {grpc, "3M", 3 * time.Minute}, {grpc, "1H", time.Hour},
		{grpc, "7u", 7 * time.Microsecond}, {grpc, "8n", 8}, {grpc, "99999999H", 1<<63 - 1},
		{grpc, "100", -1}, {grpc, "m", -1}, {grpc, "1.5S", -1}, {grpc, "-1S", -1}, {grpc, "123456789m", -1}, {grpc, "1x", -1},
	} {
		r := request(t, `/ X-Request-Deadline="`+tt.value+`" grpc-timeout="`+tt.value+`"`)
		got, ok := tt.reader.Deadline(r)
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: %v: want %v", tt.value, got, tt.want)
		}
	}
	if _, ok := own.Deadline(request(t, "/")); ok {
		t.Error("a deadline without a header")
	}
}

// Tenants of different sources are different. A weight is for the name in the file.
func TestTenants(t *testing.T) {
	r := parsed(t, "tenants: {by: [header X-Api-Key, address], weights: {acme: 3}}")
	reader := r.Reader()
	text, weights := r.Fairness()
	acme := reader.Tenant(request(t, "/ X-Api-Key=acme"))
	if weights[acme] != 3 {
		t.Errorf("%v: want a weight of 3 for %q", weights, acme)
	}
	if reader.Tenant(request(t, "/ X-Api-Key=10.1.1.1")) == reader.Tenant(request(t, "/ address=10.1.1.1")) {
		t.Error("a client can choose the tenant of an address")
	}
	if again, _ := parsed(t, "tenants: {weights: {acme: 3}, by: [header X-API-KEY, address]}").Fairness(); again != text {
		t.Errorf("%q, %q: want equal texts for equal tenants", text, again)
	}
	if other, _ := parsed(t, "tenants: {by: [header X-Api-Key, address], weights: {acme: 4}}").Fairness(); other == text {
		t.Errorf("%q: want another text for other weights", text)
	}
}

func TestDiff(t *testing.T) {
	old := parsed(t, "rules: [{name: a, rate: 1/s}, {name: b, rate: 1/s}]\nclasses: [{name: x, routes: /}]")
	next := parsed(t, "mode: shadow\nmax_pressure: 0.4\nrules: [{name: b, rate: 2/s}, {name: c, rate: 1/s}]\nclasses: [{name: x, routes: /}]")
	const want = "rules: 1 added (c), 1 changed (b), 1 removed (a); classes: as before; changed: mode, max_pressure"
	if got := proxyrule.Diff(old, next); got != want {
		t.Errorf("%s: want %s", got, want)
	}
	if got := proxyrule.Diff(old, old); got != "rules: as before; classes: as before" {
		t.Errorf("%s: want no change", got)
	}
}
