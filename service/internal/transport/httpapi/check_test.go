package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// threeADay returns a site on which each key has three tokens, and keys that begin with tight:
// one.
func threeADay(t *testing.T, cfg httpapi.Config) *site {
	tight := config.Rule{Name: "tight", Glob: "tight:*", Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Hour}}}
	return newSite(t, cfg, allKeys(3, 24*time.Hour, config.GCRA), tight)
}

// A gateway asks with the method, the path and the query of its client, none of which change the
// decision.
func TestCheckIgnoresTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := threeADay(t, httpapi.Config{})
		for i, request := range []string{
			"GET /check", "POST /check/orders/1?n=0&canWait=true", "DELETE /check/a/b/c/d/../%2e%2e/%2F",
			"HEAD /check/", "OPTIONS /check//rate/x?" + strings.Repeat("&n=%zz", 40), "PUT /check?n=0", "PATCH /check", "TRACE /check/a",
		} {
			method, url, _ := strings.Cut(request, " ")
			a := s.ask(method, url, "", "Weir-Key: user", "Origin: https://other.example", "Sec-Fetch-Site: cross-site", "Request-Timeout: x")
			if want := map[bool]int{true: 200, false: 429}[i < 3]; a.status != want {
				t.Errorf("%s: %d %s: want %d", request, a.status, a.body, want)
			}
			if a.header.Get("Cache-Control") != "no-store" || a.header.Get("RateLimit") == "" || a.header.Get("RateLimit-Policy") != `"everybody";q=3;w=86400` {
				t.Errorf("%s: %v", request, a.header)
			}
			if i >= 3 && a.header.Get("Retry-After") != "28800" {
				t.Errorf("%s: Retry-After: %q: want 28800", request, a.header.Get("Retry-After"))
			}
		}
		for _, path := range []string{"/checks", "/Check/a", "//check", "/rate/check/x/y"} {
			if a := s.ask("GET", path, "", "Weir-Key: user"); a.status != 404 {
				t.Errorf("%s: %d: want 404", path, a.status)
			}
		}
	})
}

// All keys must allow the request, or none loses tokens.
func TestCheckOfSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := threeADay(t, httpapi.Config{})
		ask := func(want int, headers ...string) *answer {
			t.Helper()
			a := s.ask("GET", "/check", "", headers...)
			if a.status != want {
				t.Errorf("%q: %d %s: want %d", headers, a.status, a.body, want)
			}
			return a
		}
		a := ask(200, "Weir-Address: 192.0.2.1:4711", "Weir-Key: tight:a")
		if got, want := a.header.Get("RateLimit"), `"everybody";r=2;t=28800, "everybody";r=2;t=28800, "tight";r=0;t=3600`; got != want {
			t.Errorf("RateLimit: %s: want %s", got, want)
		}
		a = ask(403, "Weir-Address: ::ffff:192.0.2.1", "Weir-Key: tight:a", "Weir-Denied-Status: 403")
		if a.header.Get("Retry-After") != "3600" || a.text("rule") != "tight" || a.json["status"] != 429.0 || a.text("title") != "Too Many Requests" || a.json["key"] != nil {
			t.Errorf("denied: %v %s", a.header, a.body)
		}
		ask(200, "Weir-Address: 192.0.2.1", "Weir-Cost: 2") // it has lost one token, not two
		a = ask(429, "Weir-Address: 192.0.2.1", "Weir-Key: other", "Weir-Key: tight:a")
		if a.header.Get("Retry-After") != "28800" { // the longest
			t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
		}
		a = ask(429, "Weir-Key: other", "Weir-Cost: 4") // more than the bucket holds
		if again := a.header.Get("Retry-After"); again != "" || a.text("reason") != "over_burst" {
			t.Errorf("Retry-After: %q, %s", again, a.body)
		}
		ask(200, "Weir-Key: other", "Weir-Cost: 3")

		ask(200, "Weir-Address: 2001:db8:1:2:3::1", "Weir-Cost: 3")
		ask(429, "Weir-Address: [2001:db8:1:2:4::2]:80", "Weir-Cost: 0")
		ask(429, "Weir-Key: address:2001:db8:1:2::/64")
		ask(200, "Weir-Address: 2001:db8:1:3::1")
	})
}

// All addresses of a client have one key.
func TestCheckOfAddresses(t *testing.T) {
	for address, key := range map[string]string{
		"192.0.2.1": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "64:ff9b::192.0.2.1": "192.0.2.1", "2002:c000:201:7::1": "192.0.2.1",
		"2001:0:4136:e378:8000:63bf:3fff:fdfe": "192.0.2.1", "64:ff9b:1::192.0.2.1": "64:ff9b:1::c000:201",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "unix:": "unix",
	} {
		s := threeADay(t, httpapi.Config{})
		if a := s.ask("GET", "/check", "", "Weir-Address: "+address, "Weir-Cost: 3"); a.status != 200 {
			t.Errorf("%s: %d %s", address, a.status, a.body)
		}
		if a := s.ask("GET", "/check", "", "Weir-Key: address:"+key); a.status != 429 {
			t.Errorf("%s: %d for %s: want that the address has used it up", address, a.status, key)
		}
	}
}

// A mistake of the gateway is no denial, and what its client can cause is no mistake.
func TestCheckBadRequests(t *testing.T) {
	s := threeADay(t, httpapi.Config{MaxKey: 100, Authorize: func(r *http.Request, _ token.Action, key string) error {
		switch {
		case r.Header.Get("Authorization") == "":
			return token.ErrUnknown
		case key == "secret":
			return errors.New("token edge: may not use this key")
		}
		return nil
	}})
	many := make([]string, 9)
	for i := range many {
		many[i] = fmt.Sprint("Weir-Key: ", i)
	}
	for _, tt := range []struct {
		headers []string
		status  int
		text    string
	}{
		{nil, 500, "the gateway must set one of them"},
		{many, 500, "more than 8 keys"},
		{many[:8], 200, ""},
		{[]string{"Weir-Key: secret"}, 500, "may not use this key"},
		{[]string{"Weir-Key: a", "Weir-Cost: -1"}, 500, "Weir-Cost: must be given once, a whole number from 0 to 2147483647"},
		{[]string{"Weir-Key: a", "Weir-Cost: 1", "Weir-Cost: 1"}, 500, "Weir-Cost"},
		{[]string{"Weir-Key: a", "Weir-Denied-Status: 500"}, 500, "from 400 to 499"},
		{[]string{"Weir-Key: a", "Weir-Denied-Status: "}, 500, "from 400 to 499"},
		{[]string{"Weir-Key: " + strings.Repeat("k", 101), "Weir-Denied-Status: 403"}, 403, "the key is too long"},
		{[]string{"Weir-Key: "}, 429, "the key is empty"},
		{[]string{"Weir-Key: a\xff"}, 429, "UTF-8"},
		{[]string{"Weir-Address: unix:/run/x"}, 429, "Weir-Address: it must be an IP address, with or without a port, or unix:"},
		{[]string{"Weir-Address: 192.0.2.1, 192.0.2.2"}, 429, "it must be an IP address"},
	} {
		a := s.ask("GET", "/check", "", append(tt.headers, "Authorization: Bearer x")...)
		if a.status != tt.status || !strings.Contains(a.text("error"), tt.text) {
			t.Errorf("%q: %d %s: want %d, %s", tt.headers, a.status, a.body, tt.status, tt.text)
		}
	}
	if a := s.ask("GET", "/check", "", "Weir-Key: a"); a.status != 500 || !strings.Contains(a.body, "unauthorized") {
		t.Errorf("without a token: %d %s: want 500", a.status, a.body)
	}
}

// A body is not read, so that no gateway waits for it: neither for one that does not come nor
// for a large one.
func TestCheckDoesNotReadBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := serve(t, threeADay(t, httpapi.Config{}))
		for _, want := range []string{"200 OK", "200 OK", "200 OK", "429 Too Many Requests"} {
			conn := wire.Conn(t)
			fmt.Fprint(conn, "POST /check/a HTTP/1.1\r\nHost: weir\r\nWeir-Key: a\r\nContent-Length: 1000000\r\n\r\n")
			began := time.Now()
			head := make([]byte, 64)
			n, _ := conn.Read(head)
			if !strings.HasPrefix(string(head[:n]), "HTTP/1.1 "+want) || time.Since(began) > 0 {
				t.Errorf("%q after %v: want %s", head[:n], time.Since(began), want)
			}
			conn.Close()
		}
	})
}

// A rule that denies while the store is away denies, and does not say that there is no decision.
func TestCheckWithoutAStore(t *testing.T) {
	s := threeADay(t, httpapi.Config{})
	api, err := httpapi.New(degrader{s.server, decider.ByRule}, httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	site := &site{api, s.server, t}
	for _, headers := range [][]string{{"Weir-Key: a"}, {"Weir-Key: a", "Weir-Key: b"}} {
		if a := site.ask("GET", "/check", "", headers...); a.status != 429 || a.header.Get("Weir-Degraded") != "rule" || a.header.Get("Retry-After") != "1" {
			t.Errorf("%q: %d %v %s", headers, a.status, a.header, a.body)
		}
	}
}

// A key with leases alone is a mistake of the operator: no gateway takes that for a denial.
func TestCheckLeaseOnly(t *testing.T) {
	site := newSite(t, httpapi.Config{}, config.Rule{Name: "jobs", Key: "jobs", Concurrency: &config.Concurrency{Limit: 1}})
	for _, keys := range [][]string{{"Weir-Key: jobs"}, {"Weir-Key: other", "Weir-Key: jobs"}} {
		(&step{method: "GET", url: "/check", headers: keys, status: 500, body: ".*only one with a concurrency, which a gateway cannot ask for: give that rule a rate.*"}).take(t, site)
	}
}
