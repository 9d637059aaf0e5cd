package httpapi_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// strictSite is the site of a server with rules from a file, without --get-decides. The
// rules grant one token and one lease of each key.
func strictSite(t *testing.T) *site {
	site := newSite(t, httpapi.Config{}, allKeys(1, 24*time.Hour, ""), config.Rule{
		Name: "leases", Glob: "*", Concurrency: &config.Concurrency{Limit: 1},
	})
	var err error
	if site.API, err = httpapi.New(site.server, httpapi.Config{}); err != nil {
		t.Fatal(err)
	}
	return site
}

// A browser sends a request for a page of another origin: a page that its user visits must
// not take tokens or leases. All the same, it may ask what takes nothing.
func TestCrossOrigin(t *testing.T) {
	const other = "a browser sent this request for a page of another origin"
	from := map[string]bool{ // whether the request is refused
		"Sec-Fetch-Site: cross-site":                                 true,
		"Sec-Fetch-Site: same-site":                                  true,
		"Sec-Fetch-Site: same-origin":                                false,
		"Sec-Fetch-Site: none":                                       false, // the user typed the address
		"Origin: https://evil.example":                               true,
		"Origin: null":                                               true,
		"Origin: http://example.com":                                 false, // the Host of newRequest
		"Origin: http://example.com:8080":                            true,
		"Sec-Fetch-Site: cross-site\nOrigin: http://example.com":     true,
		"Sec-Fetch-Site: same-origin\nOrigin: https://other.example": false, // behind a proxy that changes Host
	}
	for fields, refused := range from {
		headers := strings.Split(fields, "\n")
		desk := strictSite(t)
		lease := desk.ask("POST", "/lease/mine", "").text("lease_id")
		var grants [2]string
		for i, key := range []string{"mine", "yours"} {
			grants[i] = desk.ask("POST", "/rate/"+key, "").text("request_id")
		}
		getDecides, err := httpapi.New(desk.server, httpapi.Config{GetDecides: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			api           *httpapi.API
			request, body string
			harmless      bool // takes and gives back nothing
		}{
			{desk.API, "POST /rate/a", "", false},
			{desk.API, "POST /rate", `[{"key":"b"}]`, false},
			{getDecides, "GET /rate/c", "", false},
			{desk.API, "POST /rate/mine/" + grants[0] + "?n=1", "", false},
			{desk.API, "DELETE /rate/yours/" + grants[1], "", false},
			{desk.API, "POST /lease/a", "", false},
			{desk.API, "POST /lease/mine/" + lease, "", false},
			{desk.API, "DELETE /lease/mine/" + lease, "", false},
			{getDecides, "GET /rate/d?n=0", "", true},
			{desk.API, "GET /rate/d?n=0", "", true},
			{desk.API, "GET /lease/d", "", true},
			{desk.API, "GET /debug", "", true},
			{desk.API, "GET /healthz", "", true},
		} {
			method, url, _ := strings.Cut(tt.request, " ")
			with := headers
			if tt.body != "" {
				with = append([]string{asJSON}, headers...)
			}
			a := (&site{tt.api, desk.server, t}).ask(method, url, tt.body, with...)
			want := 200
			if refused && !tt.harmless {
				want = 403
			}
			if a.status != want || want == 403 && !strings.Contains(a.body, other) {
				t.Errorf("%q: %s: %d %s: want %d", fields, tt.request, a.status, a.body, want)
			}
		}
		for _, key := range []string{"a", "b", "c"} { // tokens are taken, or not
			a := desk.ask("POST", "/rate/"+key, "")
			if want := map[bool]int{true: 200, false: 429}[refused]; a.status != want {
				t.Errorf("%q: then POST /rate/%s: %d: want %d", fields, key, a.status, want)
			}
		}
	}
}

// A crawler, a prefetch or a link must not take tokens: GET does so only if the server
// is told that it may.
func TestGetTakesNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := strictSite(t)
		for _, url := range []string{"/rate/a", "/rate/a?n=1", "/rate/a?canWait=true", "/rate/a?n=3&timeout=1s"} {
			a := site.ask("GET", url, "")
			if a.status != 405 || a.header.Get("Allow") != "POST" || !strings.Contains(a.body, "--get-decides") {
				t.Errorf("GET %s: %d, Allow: %q, %s: want 405, POST", url, a.status, a.header.Get("Allow"), a.body)
			}
		}
		if a := site.ask("GET", "/rate/a?n=0", ""); a.status != 200 {
			t.Errorf("GET with n=0: %d: want 200", a.status)
		}
		if a := site.ask("POST", "/rate/a", ""); a.status != 200 {
			t.Errorf("POST: %d: a GET has taken the token", a.status)
		}
	})
}
