package httpapi_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// Clients that prefer text/plain get ids and errors alone, as from GoCC. The ids are valid for the
// grants and leases that they name.
func TestText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, config.Fixed))
		do := func(status int, method, url, accept string) *answer {
			t.Helper()
			a := site.ask(method, url, "", "Accept: "+accept)
			if a.status != status {
				t.Errorf("%s %s: %d %s: want %d", method, url, a.status, a.body, status)
			}
			return a
		}
		want := func(a *answer, body string) string {
			t.Helper()
			if kind := a.header.Get("Content-Type"); kind != "text/plain; charset=utf-8" || !regexp.MustCompile("^"+body+"$").MatchString(a.body) {
				t.Errorf("%s, %q: want %s", kind, a.body, body)
			}
			return a.body
		}
		id := want(do(200, "POST", "/rate/a", "text/plain"), "[0-9a-f-]{36}")
		want(do(200, "GET", "/rate/a", "text/plain, */*"), "[0-9a-f-]{36}")
		want(do(429, "POST", "/rate/a", "text/plain"), "rate limit exceeded")
		want(do(400, "POST", "/rate/a?canWait=x", "text/plain"), "cannot read canWait: it must be true or false")
		do(200, "DELETE", "/rate/a/"+id, "*/*")
		want(do(200, "GET", "/rate/a?n=0", "text/plain"), "1")
		for _, accept := range []string{"*/*", "application/json, text/plain, */*", "text/plain;q=0.5, application/json", "text/plain;q=0", "text/html", "text/*", strings.Repeat("a/b,", 32) + "text/plain"} {
			if a := do(200, "POST", "/rate/b?n=0", accept); a.header.Get("Content-Type") != "application/json" || a.json["remaining"] != 2.0 {
				t.Errorf("%s: %v %s", accept, a.header, a.body)
			}
		}
		for _, accept := range []string{"application/json;q=0.5, text/plain", strings.Repeat("a/b,", 31) + "text/plain", "text/plain" + strings.Repeat(";a=b", 1000) + ";q=0"} {
			want(do(200, "POST", "/rate/b?n=0", accept), "2")
		}
	})
}

func TestLeaseText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, config.Rule{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 1, TTL: 10 * s}})
		do := func(method, url string, status int, body string) string {
			t.Helper()
			return (&step{method: method, url: url, headers: []string{"Accept: text/plain"}, status: status, body: body}).take(t, site).body
		}
		id := do("POST", "/lease/a", 200, "[0-9a-f]{32}")
		do("POST", "/lease/a", 429, "concurrency limit reached")
		if again := do("POST", "/lease/a/"+id, 200, "[0-9a-f]{32}"); again != id {
			t.Errorf("%s: want %s", again, id)
		}
		do("DELETE", "/lease/a/"+id, 200, "{}\n")
		do("POST", "/lease/a/"+id, 404, "no such lease.*")
	})
}
