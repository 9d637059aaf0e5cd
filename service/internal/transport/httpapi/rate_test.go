package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// A step is a request, after some time, and the answer that it has.
type step struct {
	after       time.Duration
	method, url string
	headers     []string
	status      int
	body        string // a regular expression for all of it
	fields      string // of the answer, as "Name: value"; all of them, in order
}

// interesting are the headers that a step looks at.
var interesting = []string{
	"Allow", "Cache-Control", "Content-Type", "Ratelimit", "Ratelimit-Policy", "Retry-After", "Www-Authenticate",
}

func (st *step) take(t *testing.T, s *site) *answer {
	t.Helper()
	time.Sleep(st.after)
	a := s.ask(st.method, st.url, "", st.headers...)
	if a.status != st.status {
		t.Errorf("%s %s: %d %s: want %d", st.method, st.url, a.status, a.body, st.status)
	}
	if !regexp.MustCompile(`^(?:` + st.body + `)\n?$`).MatchString(a.body) {
		t.Errorf("%s %s: %s: want %s", st.method, st.url, a.body, st.body)
	}
	if got := fields(a.header); st.fields != "" && got != st.fields {
		t.Errorf("%s %s:\n%s\nwant\n%s", st.method, st.url, got, st.fields)
	}
	return a
}

func fields(h http.Header) string {
	var lines []string
	for _, name := range interesting {
		for _, value := range h[name] {
			lines = append(lines, name+": "+value)
		}
	}
	return strings.Join(lines, "\n")
}

const (
	uuid    = `[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	granted = `{"request_id":"` + uuid + `"}`
	asJSON  = "Content-Type: application/json"
)

func named(r config.Rule, name string) config.Rule {
	r.Name = name
	return r
}

func TestRate(t *testing.T) {
	shadow := named(allKeys(1, time.Hour, ""), "trial")
	shadow.Mode = config.Shadow
	small := allKeys(10, s, config.Fixed)
	none := 0
	noQueue := allKeys(1, s, config.Fixed)
	noQueue.Queue = &none
	patient := allKeys(1, 10*s, config.Fixed)
	patient.MaxWait = 2 * s
	for name, tt := range map[string]struct {
		cfg   httpapi.Config
		rules []config.Rule
		steps []step
	}{
		"fixed windows": {rules: []config.Rule{allKeys(2, s, config.Fixed)}, steps: []step{
			{method: "POST", url: "/rate/a", status: 200, body: granted,
				fields: asJSON + "\nRatelimit: \"everybody\";r=1;t=1\nRatelimit-Policy: \"everybody\";q=2;w=1"},
			{method: "GET", url: "/rate/a", status: 200, body: granted,
				fields: "Cache-Control: no-store\n" + asJSON + "\nRatelimit: \"everybody\";r=0;t=1\nRatelimit-Policy: \"everybody\";q=2;w=1"},
			{after: 300*ms + 1, method: "POST", url: "/rate/a", status: 429, // rounded up
				body:   `{"error":"rate limit exceeded","key":"a","reason":"over_rate","rule":"everybody","retry_after_ms":700}`,
				fields: asJSON + "\nRatelimit: \"everybody\";r=0;t=1\nRatelimit-Policy: \"everybody\";q=2;w=1\nRetry-After: 1"},
			{method: "POST", url: "/rate/b", status: 200, body: granted},
			{after: 700*ms - 1, method: "POST", url: "/rate/a", status: 200, body: granted},
		}},
		"a token bucket": {rules: []config.Rule{allKeys(60, time.Minute, "")}, steps: []step{
			{method: "POST", url: "/rate/a?n=60", status: 200, body: `{"request_id":"` + uuid + `-60"}`,
				fields: asJSON + "\nRatelimit: \"everybody\";r=0;t=1\nRatelimit-Policy: \"everybody\";q=60;w=60"},
			{method: "POST", url: "/rate/a?n=10", status: 429, body: `.*"retry_after_ms":10000}`,
				fields: asJSON + "\nRatelimit: \"everybody\";r=0;t=10\nRatelimit-Policy: \"everybody\";q=60;w=60\nRetry-After: 10"},
			{after: time.Minute, method: "POST", url: "/rate/a?n=0", status: 200, body: `{"remaining":60}`,
				fields: asJSON + "\nRatelimit: \"everybody\";r=60\nRatelimit-Policy: \"everybody\";q=60;w=60"},
			{method: "POST", url: "/rate/a?n=61", status: 429, body: `.*"reason":"over_burst","rule":"everybody"}`,
				fields: asJSON + "\nRatelimit: \"everybody\";r=60\nRatelimit-Policy: \"everybody\";q=60;w=60"},
		}},
		"sliding windows do not say when there is more, unless it is needed": {rules: []config.Rule{allKeys(2, s, config.Sliding)}, steps: []step{
			{method: "POST", url: "/rate/a", status: 200, body: granted,
				fields: asJSON + "\nRatelimit: \"everybody\";r=1\nRatelimit-Policy: \"everybody\";q=2;w=1"},
			{method: "POST", url: "/rate/a?n=2", status: 429, body: `.*"over_rate".*`},
		}},
		"a check takes nothing": {rules: []config.Rule{allKeys(1, time.Hour, config.Fixed)}, steps: []step{
			{method: "GET", url: "/rate/a?n=0", status: 200, body: `{"remaining":1}`},
			{method: "GET", url: "/rate/a?n=0", status: 200, body: `{"remaining":1}`},
			{method: "GET", url: "/rate/a", status: 200, body: granted},
			{method: "GET", url: "/rate/a?n=0", status: 429, body: `.*"retry_after_ms":3600000}`},
		}},
		"of several rules all are told of, up to the one that denies": {
			rules: []config.Rule{named(small, "second"), named(allKeys(2, time.Hour, config.Fixed), "hour"), named(small, "never")}, steps: []step{
				{method: "POST", url: "/rate/a?n=2", status: 200, body: `.*`,
					fields: asJSON + "\nRatelimit: \"second\";r=8;t=1, \"hour\";r=0;t=3600, \"never\";r=8;t=1" +
						"\nRatelimit-Policy: \"second\";q=10;w=1, \"hour\";q=2;w=3600, \"never\";q=10;w=1"},
				{method: "POST", url: "/rate/a?n=2", status: 429, body: `.*"rule":"hour","retry_after_ms":3600000}`,
					fields: asJSON + "\nRatelimit: \"second\";r=8;t=1, \"hour\";r=0;t=3600" +
						"\nRatelimit-Policy: \"second\";q=10;w=1, \"hour\";q=2;w=3600\nRetry-After: 3600"},
			}},
		"a rule on trial is not told of": {rules: []config.Rule{shadow, small}, steps: []step{
			{method: "POST", url: "/rate/a?n=2", status: 200, body: `.*`,
				fields: asJSON + "\nRatelimit: \"everybody\";r=8;t=1\nRatelimit-Policy: \"everybody\";q=10;w=1"},
			{method: "POST", url: "/rate/a?n=0", status: 200, body: `{"remaining":8}`},
		}},
		"with the names of a later draft": {cfg: httpapi.Config{Fields: httpapi.FieldsNext}, rules: []config.Rule{small}, steps: []step{
			{method: "POST", url: "/rate/a?n=2", status: 200, body: `.*`,
				fields: asJSON + "\nRatelimit: \"everybody\";a=8;w=1\nRatelimit-Policy: \"everybody\";q=10;w=1"},
		}},
		"without fields": {cfg: httpapi.Config{Fields: httpapi.FieldsNone}, rules: []config.Rule{noQueue}, steps: []step{
			{method: "POST", url: "/rate/a", status: 200, body: granted, fields: asJSON},
			{method: "POST", url: "/rate/a", status: 429, body: `.*`, fields: asJSON + "\nRetry-After: 1"},
			{method: "POST", url: "/rate/a?canWait=1", status: 429, body: `.*"queue_full".*`, fields: asJSON + "\nRetry-After: 1"},
		}},
		"without a rule everything passes": {steps: []step{
			{method: "POST", url: "/rate/a", status: 200, body: `{"request_id":".*"}`, fields: asJSON},
			{method: "POST", url: "/rate/a?n=0", status: 200, body: `{}`},
		}},
		"a problem, for who accepts one": {rules: []config.Rule{allKeys(0, s, config.Fixed)}, steps: []step{
			{method: "POST", url: "/rate/a", headers: []string{"Accept: application/problem+json"}, status: 429,
				body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
					`"detail":"rate limit exceeded","violated-policies":\["everybody"\],"error":"rate limit exceeded","key":"a","reason":"over_.*`},
			{method: "GET", url: "/rate/a?n=x", headers: []string{"Accept: application/json, application/problem+json;q=0.5"}, status: 400,
				body: `{"type":"about:blank","title":"Bad Request","status":400,"detail":"cannot read n: .*","error":"cannot read n.*","key":"a"}`},
			{method: "POST", url: "/rate/a", headers: []string{"Accept: application/problem+json;q=0"}, status: 429, body: `{"error".*`},
			{method: "POST", url: "/rate/a", headers: []string{"Accept: */*"}, status: 429, body: `{"error".*`},
		}},
		"what it waited": {rules: []config.Rule{allKeys(1, s, config.Fixed)}, steps: []step{
			{method: "POST", url: "/rate/a", status: 200, body: granted},
			{after: 250 * ms, method: "POST", url: "/rate/a?canWait=true", status: 200, body: `{"request_id":"` + uuid + `","waited_ms":750,"place":0}`},
		}},
		"who cannot make it is told at once": {rules: []config.Rule{allKeys(1, 10*s, config.Fixed)}, steps: []step{
			{method: "POST", url: "/rate/a?canWait=true&timeout=1s", status: 200, body: granted},
			{after: s, method: "POST", url: "/rate/a?canWait=true&timeout=8.9s", status: 429, body: `.*"reason":"too_late",.*"retry_after_ms":9000,"eta_ms":9000,"place":0}`},
			{method: "POST", url: "/rate/a?canWait=true", headers: []string{"Request-Timeout: 8"}, status: 429, body: `.*"reason":"too_late",.*"eta_ms":9000.*`},
			{method: "POST", url: "/rate/a?canWait=true&timeout=1", headers: []string{"Request-Timeout: 20s"}, status: 429, body: `.*"reason":"too_late",.*"eta_ms":9000.*`},
			{method: "POST", url: "/rate/a?canWait=true&timeout=20", headers: []string{"Request-Timeout: 1s"}, status: 429, body: `.*"reason":"too_late",.*"eta_ms":9000.*`},
			{method: "POST", url: "/rate/a?canWait=true&timeout=0", status: 429, body: `.*"reason":"too_late",.*`},
			{method: "POST", url: "/rate/a?timeout=20", status: 429, body: `.*"over_rate",.*"retry_after_ms":9000}`},
			{method: "POST", url: "/rate/a?canWait=true&timeout=9", status: 200, body: `.*"waited_ms":9000.*`},
		}},
		"a rule that lets nobody wait so long": {rules: []config.Rule{patient}, steps: []step{
			{method: "POST", url: "/rate/a", status: 200, body: granted},
			{method: "POST", url: "/rate/a?canWait=true", status: 429, body: `.*"over_rate",.*"eta_ms":10000.*`},
			{after: 8 * s, method: "POST", url: "/rate/a?canWait=true", status: 200, body: `.*"waited_ms":2000.*`},
		}},
		"limits of their own may not be given": {rules: []config.Rule{small}, steps: []step{
			{method: "POST", url: "/rate/a?maxRequests=5", status: 403, body: `{"error":"maxRequests query parameter is disabled","key":"a"}`},
			{method: "POST", url: "/rate/a?maxRequestsInQueue=5", status: 403, body: `{"error":"maxRequestsInQueue query parameter is disabled","key":"a"}`},
			{method: "POST", url: "/rate/a?maxRequests=&maxRequestsInQueue=+", status: 200, body: granted},
		}},
		"limits of their own may be given": {cfg: httpapi.Config{MaxLimit: 50, MaxQueue: 5}, rules: []config.Rule{small}, steps: []step{
			{method: "POST", url: "/rate/a?n=15", status: 429, body: `.*"over_burst".*`},
			{method: "POST", url: "/rate/a?n=15&maxRequests=20", status: 200, body: `.*-15"}`},
			{method: "POST", url: "/rate/a?n=2&maxRequests=2", status: 429, body: `.*`},
			{method: "POST", url: "/rate/a?maxRequests=51", status: 400, body: `{"error":"maxRequests out of bounds","key":"a"}`},
			{method: "POST", url: "/rate/a?maxRequests=0", status: 400, body: `{"error":"maxRequests out of bounds","key":"a"}`},
			{method: "POST", url: "/rate/a?maxRequestsInQueue=6", status: 400, body: `{"error":"maxRequestsInQueue out of bounds","key":"a"}`},
			{method: "POST", url: "/rate/a?canWait=true&maxRequestsInQueue=0", status: 429, body: `.*"queue_full".*`},
			{method: "POST", url: "/rate/a?canWait=true&maxRequestsInQueue=1", status: 200, body: `.*"waited_ms":1000.*`},
		}},
		"what clients and instances of GoCC send besides does no harm": {rules: []config.Rule{allKeys(100, time.Hour, config.Fixed)}, steps: []step{
			{method: "POST", url: "/rate/a", headers: []string{"X-Correlation-ID: abc-123"}, status: 200, body: granted},
			{method: "POST", url: "/rate/a?canWait=&maxRequests=", status: 200, body: granted},
			{method: "POST", url: "/rate/a?canWait=T&ik=true", status: 200, body: granted},
			{method: "POST", url: "/rate/%20a%20", status: 200, body: granted},
			{method: "POST", url: "/rate/a?canWait=perhaps", status: 400, body: `.*cannot read canWait.*`},
			{method: "POST", url: "/rate/%20", status: 400, body: `.*`},
			{method: "GET", url: "/debug/a", status: 200, body: `.*"NumApprovedThisWindow":4,.*`},
		}},
		"keys are as they were meant": {rules: []config.Rule{allKeys(0, s, config.Fixed)}, steps: []step{
			{method: "GET", url: "/rate/a%2Fb%2F%2Fc", status: 429, body: `.*"key":"a/b//c",.*`},
			{method: "GET", url: "/rate/%20+a%20b%20", status: 429, body: `.*"key":"\+a b",.*`},
			{method: "GET", url: "/rate/..", status: 429, body: `.*"key":"..",.*`},
			{method: "GET", url: "/rate/%2e", status: 429, body: `.*"key":"\.",.*`},
			{method: "GET", url: "/rate/%C3%A4%22%5C%3F%23", status: 429, body: `.*"key":"ä\\"\\\\\?#",.*`},
			{method: "GET", url: "/%72ate/a", status: 429, body: `.*"key":"a",.*`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, tt.cfg, tt.rules...)
				for i := range tt.steps {
					tt.steps[i].take(t, s)
				}
			})
		})
	}
}

// The tokens of a window are granted, each with its own id, by POST or GET.
func TestIDs(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		c := serve(t, newSite(t, httpapi.Config{}, allKeys(100, time.Hour, config.Fixed))).Client(t, version)
		ids := map[string]bool{}
		for i := range 100 {
			ids[fetch(t, c, []string{"POST", "GET"}[i%2], "/rate/a", "").text("request_id")] = true
		}
		if len(ids) != 100 || ids[""] {
			t.Errorf("%d ids", len(ids))
		}
		if a := fetch(t, c, "POST", "/rate/a", ""); a.status != 429 || a.text("error") != "rate limit exceeded" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestSettle(t *testing.T) {
	for name, algorithm := range map[string]config.Algorithm{"a token bucket": "", "fixed windows": config.Fixed, "sliding windows": config.Sliding} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, httpapi.Config{}, allKeys(10, time.Hour, algorithm))
				left := func(want string) {
					t.Helper()
					(&step{method: "GET", url: "/rate/a?n=0", status: 200, body: `{"remaining":` + want + `}`}).take(t, s)
				}
				first := s.ask("POST", "/rate/a?n=3", "").text("request_id")
				second := s.ask("POST", "/rate/a", "").text("request_id")
				left("6")
				for _, st := range []step{
					{method: "POST", url: "/rate/b/" + first + "?n=1", status: 404, body: `{"error":"no such grant.*","key":"b"}`},
					{method: "POST", url: "/rate/a/" + first, status: 400, body: `.*n is missing.*`},
					{method: "POST", url: "/rate/a/" + first + "?n=1", status: 200, body: `{"was":3,"charged":1}`},
					{method: "POST", url: "/rate/a/" + first + "?n=1", status: 404, body: `.*no such grant.*`},
					{method: "DELETE", url: "/rate/a/" + first, status: 404, body: `.*no such grant.*`},
				} {
					st.take(t, s)
				}
				left("8")
				(&step{method: "DELETE", url: "/rate/%20a/" + second, status: 200, body: `{"was":1,"charged":0}`}).take(t, s)
				left("9")
			})
		})
	}
}

// A server that is closing lets no request wait; it answers all others.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, httpapi.Config{}, allKeys(1, time.Minute, config.Fixed))
		s.server.Close(false)
		for _, st := range []step{
			{method: "POST", url: "/rate/a?canWait=true", status: 200, body: granted},
			{method: "POST", url: "/rate/a", status: 429, body: `.*"over_rate".*`},
			{method: "POST", url: "/rate/a?canWait=true", status: 503,
				body: `{"error":"the server is closing","key":"a","reason":"closed","rule":"everybody","retry_after_ms":1000}`},
			{method: "POST", url: "/rate/a?canWait=true", headers: []string{"Accept: application/problem+json"}, status: 503,
				body: `.*#temporary-reduced-capacity","title":"Service Unavailable","status":503.*`},
			{method: "GET", url: "/healthz", status: 200, body: "OK"},
		} {
			a := st.take(t, s)
			if st.status == 503 && a.header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After: %s", a.header.Get("Retry-After"))
			}
		}
	})
}

func TestAuthorize(t *testing.T) {
	var asked []string
	s := newSite(t, httpapi.Config{Authorize: func(r *http.Request, action token.Action, key string) error {
		asked = append(asked, string(action)+" "+key)
		switch r.Header.Get("Authorization") {
		case "":
			return token.ErrUnknown
		case "Bearer me":
			if key == "a" {
				return nil
			}
		}
		return errors.New("not yours")
	}}, allKeys(100, time.Hour, config.Fixed))
	const body = `[{"key":"a"},{"key":"a"},{"key":"b"},{"key":"a"}]`
	for _, tt := range []struct {
		method, url, body string
		want              string // that was asked
		status            [3]int // without a token, with mine, with another
	}{
		{"POST", "/rate/a?n=x", "", "decide a", [3]int{401, 400, 403}},
		{"POST", "/rate/%20a", "", "decide a", [3]int{401, 200, 403}},
		{"GET", "/rate/b", "", "decide b", [3]int{401, 403, 403}},
		{"DELETE", "/rate/a/x", "", "decide a", [3]int{401, 404, 403}},
		{"POST", "/rate/a/x?n=1", "", "decide a", [3]int{401, 404, 403}},
		{"POST", "/rate", body, "decide ", [3]int{401, 403, 403}},
		{"POST", "/rate", `[{"key":"a"},{"key":"a"}]`, "decide ", [3]int{401, 200, 403}},
		{"POST", "/lease/a", "", "lease a", [3]int{401, 404, 403}},
		{"GET", "/lease/a", "", "lease a", [3]int{401, 404, 403}},
		{"POST", "/lease/a/x", "", "lease a", [3]int{401, 404, 403}},
		{"DELETE", "/lease/a/x", "", "lease a", [3]int{401, 404, 403}},
		{"GET", "/debug", "", "debug ", [3]int{401, 403, 403}},
		{"GET", "/debug/a", "", "debug a", [3]int{401, 200, 403}},
		{"GET", "/healthz", "", "", [3]int{200, 200, 200}},
		{"GET", "/openapi.json", "", "", [3]int{200, 200, 200}},
	} {
		for i, who := range []string{"", "Authorization: Bearer me", "Authorization: Bearer you"} {
			asked = nil
			var headers []string
			if who != "" {
				headers = []string{who}
			}
			a := s.ask(tt.method, tt.url, tt.body, headers...)
			if a.status != tt.status[i] {
				t.Errorf("%s %s by %q: %d %s: want %d", tt.method, tt.url, who, a.status, a.body, tt.status[i])
			}
			if first := strings.Join(asked, ", "); !strings.HasPrefix(first, tt.want) || (tt.want == "") != (len(asked) == 0) {
				t.Errorf("%s %s by %q: asked %q: want %q", tt.method, tt.url, who, first, tt.want)
			}
			if (a.status == 401) != (a.header.Get("Www-Authenticate") != "") {
				t.Errorf("%s %s by %q: %v", tt.method, tt.url, who, a.header)
			}
		}
	}
	// One was granted, and the two of a batch; of the batch that was refused nothing.
	if a := s.ask("GET", "/rate/a?n=0", "", "Authorization: Bearer me"); a.body != "{\"remaining\":97}\n" {
		t.Errorf("%s: want 97", a.body)
	}
}

// The body of a batch is not read for a client without a token.
func TestAuthorizeBeforeTheBody(t *testing.T) {
	s := newSite(t, httpapi.Config{Authorize: func(*http.Request, token.Action, string) error { return token.ErrUnknown }},
		allKeys(100, time.Hour, config.Fixed))
	r := httptest.NewRequest("POST", "/rate", iotest.ErrReader(errors.New("the body was read")))
	r.ContentLength = 1 << 20
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 401 || !strings.Contains(w.Body.String(), "unknown token") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]httpapi.Config{
		"MaxLimit = -1":     {MaxLimit: -1},
		"MaxQueue = -2":     {MaxQueue: -2},
		"MaxKey = -3":       {MaxKey: -3},
		"MaxBody = -5":      {MaxBody: -5},
		"BodyTimeout = -1s": {BodyTimeout: -s},
	} {
		if _, err := httpapi.New(nil, cfg); err == nil || !strings.HasPrefix(err.Error(), "httpapi: "+want+": must be") {
			t.Errorf("%v: want %s", err, want)
		}
	}
}

func TestStats(t *testing.T) {
	s := newSite(t, httpapi.Config{}, allKeys(1, time.Hour, config.Fixed))
	s.ask("POST", "/rate/a", "")
	s.ask("POST", "/rate/a", "")
	s.ask("POST", "/rate/a", "")
	s.ask("POST", "/rate", `[{"key":"a"},{"key":"b"},{"key":"c"}]`)
	s.ask("GET", "/nowhere", "")
	s.ask("PUT", "/rate/a", "")
	st := s.Stats()
	want := []httpapi.Count{
		{"POST", "/rate/{key}", 200, 1}, {"POST", "/rate/{key}", 429, 2}, {"POST", "/rate", 200, 1}, {"", "", 404, 1}, {"", "", 405, 1},
	}
	if st.Batched != 3 || len(st.Answers) != len(want) {
		t.Fatalf("%+v: want %+v", st, want)
	}
	for i := range want {
		if st.Answers[i] != want[i] {
			t.Errorf("%+v: want %+v", st.Answers[i], want[i])
		}
	}
}

// However many rules count for a key, the header of an answer stays small: it has the first
// rules, and the one that denied.
func TestFieldsOfManyRules(t *testing.T) {
	var rules []config.Rule
	for i := range 1000 {
		rule := allKeys(10, time.Hour, config.GCRA)
		rule.Name = fmt.Sprintf("rule-%d", i)
		rules = append(rules, rule)
	}
	rules[999].Rate.Count = 1
	site := newSite(t, httpapi.Config{}, rules...)
	for _, want := range []struct {
		status, items int
		last          string
	}{{200, 16, "rule-15"}, {429, 17, "rule-999"}} {
		a := site.ask("POST", "/rate/a", "")
		if a.status != want.status {
			t.Errorf("status %d: want %d", a.status, want.status)
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			items := strings.Split(a.header.Get(name), ", ")
			if last := items[len(items)-1]; len(items) != want.items || !strings.HasPrefix(last, `"`+want.last+`";`) {
				t.Errorf("%s has %d items, the last is %s: want %d, %s", name, len(items), last, want.items, want.last)
			}
		}
	}
}
