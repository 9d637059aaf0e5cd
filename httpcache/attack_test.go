package httpcache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/testrig"
)

// What a client writes around the path of a target is not in what others get.
func TestTargetsThatAreNoPathDoNotPoison(t *testing.T) {
	show := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.String(), " ", r.RequestURI) }
	for _, target := range []url.URL{
		{Scheme: "http", Host: "evil.example", Path: "/list", RawQuery: "a"},
		{Scheme: "http", Host: "example.com", User: url.User("evil"), Path: "/list", RawQuery: "a"},
		{Scheme: "javascript", Host: "example.com", Path: "/list", RawQuery: "a"},
		{Scheme: "javascript", OmitHost: true, Path: "/list", RawQuery: "a"},
		{Scheme: "http", Opaque: "evil", Path: "/list", RawQuery: "a"},
		{Scheme: "http", User: url.User("evil"), Path: "/list", RawQuery: "a"},
	} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, show)
		r := testrig.Request("GET", "/list?a")
		r.URL, r.RequestURI = &target, target.String()
		g.do(r)
		if w := g.get("/list?a"); w.Body.String() != "/list?a /list?a" {
			t.Errorf("%s: others get %s", target.String(), w.Body)
		}
		passes := target.Opaque != "" || target.User != nil || target.Host == "evil.example"
		if (g.Stats().Passed == 1) != passes {
			t.Errorf("%s: %+v: want it to pass: %v", target.String(), g.Stats(), passes)
		}
		if r.URL.Scheme != target.Scheme || r.RequestURI != target.String() {
			t.Errorf("%s: the client's request was changed: %v", target.String(), r.URL)
		}
	}
	g := newRig(t, Config{DefaultTTL: time.Minute}, show)
	for _, alike := range []string{"http://example.com/list", "/list", "/list?"} {
		if w := g.get(alike); w.Body.String() != "/list /list" {
			t.Errorf("%s: %s", alike, w.Body)
		}
	}
	g.ran(1, "for one resource")
}

// With credentials, a response goes to others only if it says public or
// s-maxage, and is fresh.
func TestCredentialsShareOnlyWhatIsFreshAndPublic(t *testing.T) {
	for control, shared := range map[string]bool{
		"max-age=0, must-revalidate": false, "must-revalidate, max-age=9": false, "public, max-age=0": false,
		"s-maxage=0, max-age=0": false, "public": false, "public, max-age=9": true, "s-maxage=9": true,
	} {
		for _, status := range []int{200, 500} {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Second)
					w.Header().Set("Cache-Control", control)
					w.WriteHeader(status)
					fmt.Fprint(w, r.Header.Get("Cookie"))
				})
				var wg sync.WaitGroup
				wg.Go(func() { g.get("/", "Cookie: alice") })
				synctest.Wait()
				if w := g.get("/", "Cookie: bob"); (w.Body.String() == "alice") != shared {
					t.Errorf("%d %s: bob got the page of %s: want shared %v", status, control, w.Body, shared)
				}
				wg.Wait()
			})
		}
	}
}

// Whatever becomes of a conditional request, its answer is as long as it says.
func TestConditionalAnswersAreFramed(t *testing.T) {
	for _, headers := range [][]string{nil, {"Content-Encoding: gzip"}} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, text(strings.Repeat("x", 5000), append(headers, `ETag: "v"`)...))
		for version, do := range serve(t, g.handler) {
			for _, tt := range []struct {
				header         string
				status, length int
			}{
				{`If-Match: "z"`, 412, 0}, {`If-Match: "v"`, 200, 5000}, {`If-None-Match: "z"`, 200, 5000}, {`If-None-Match: "v"`, 304, 0},
				{"Range: bytes=9-", 206, 4991}, {"If-Unmodified-Since: Sun, 09 Sep 2001 01:46:40 GMT", 200, 5000},
			} {
				resp := do("GET", "/", tt.header)
				if got := body(t, resp); resp.StatusCode != tt.status || len(got) != tt.length {
					t.Errorf("%s %s: %d, %d bytes: want %d, %d", version, tt.header, resp.StatusCode, len(got), tt.status, tt.length)
				}
				if resp.StatusCode != 304 && resp.ContentLength >= 0 && resp.ContentLength != int64(tt.length) {
					t.Errorf("%s %s: Content-Length %d of %d", version, tt.header, resp.ContentLength, tt.length)
				}
			}
		}
	}
}

// The conditions of a HEAD count, also if its response declares neither a length nor a
// type; and it gets neither.
func TestConditionsOfHead(t *testing.T) {
	for _, length := range []string{"", "5000"} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"v"`)
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
		})
		for version, do := range serve(t, g.handler) {
			for header, status := range map[string]int{
				`If-None-Match: "v"`: 304, `If-None-Match: "z"`: 200, `If-Match: "z"`: 412, "Range: bytes=0-1": 200, "X: y": 200,
			} {
				resp := do("HEAD", "/", header)
				if resp.StatusCode != status {
					t.Errorf("%s %s: %d: want %d", version, header, resp.StatusCode, status)
				}
				if got, kind := resp.Header.Get("Content-Length"), resp.Header.Get("Content-Type"); status == 200 && (got != length || kind != "") {
					t.Errorf("%s %s: Content-Length %q, Content-Type %q: want %q, none", version, header, got, kind, length)
				}
			}
		}
	}
}

// A length that a handler declares takes no memory before there is a body of that length.
func TestADeclaredLengthTakesNoMemory(t *testing.T) {
	g := newRig(t, Config{Bytes: cache.MaxBytes, MaxBody: cache.MaxBytes}, text("x", fmt.Sprint("Content-Length: ", int64(cache.MaxBytes))))
	if w := g.get("/"); w.Code != 500 {
		t.Errorf("%d: want 500 for a body that is too short", w.Code)
	}
}

// Header names mean the same however they are written.
func TestHeaderNamesAreCanonical(t *testing.T) {
	for _, tt := range []struct{ name, value string }{
		{"set-cookie", "a=b"}, {"cache-control", "private"}, {"VARY", "*"}, {"content-type", "text/event-stream"}, {"trailer", "X"},
	} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			w.Header()[tt.name] = []string{tt.value}
			fmt.Fprint(w, "x")
		})
		g.get("/")
		if got := g.get("/").Header().Get("Cache-Status"); got != bypass {
			t.Errorf("%s: %s: %s: want it not to be shared", tt.name, tt.value, got)
		}
	}
}

func TestAMalformedCacheControlIsNotShared(t *testing.T) {
	for _, lines := range [][]string{
		{`x="a, max-age=9`}, {`max-age=9, x="a`, "public"}, {`max-age=9, x="a\"`}, {`"`}, {"private; max-age=9"}, {"no-store max-age=9"},
		{"max-age=9 private"}, {"max-age=9; private"}, {"max-age = 9"}, {"max-age="}, {"=9"}, {"max-age=9, (private)"}, {"max-age=9", "x=a b"},
		{`max-age="9"private`}, {`max-age=9, x="a"b"c"`}, {"max-age=9, priv\xe9"}, {"max-age: 9"},
	} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Cache-Control"] = lines
		})
		g.get("/")
		if got := g.get("/").Header().Get("Cache-Status"); got != bypass {
			t.Errorf("%s: %s: want it not to be shared", lines, got)
		}
	}
}

// The error of one client concerns no other: others do not get the response, and
// kept responses stay.
func TestAClientsErrorIsItsOwn(t *testing.T) {
	for _, status := range []int{400, 401, 403, 412, 422} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{DefaultTTL: 10 * time.Second, Refresh: cache.Refresh{ErrorTTL: time.Hour, Stale: time.Second, StaleIfError: time.Hour}},
				func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Second)
					if r.Header.Get("X-Limit") != "" {
						w.WriteHeader(status)
					}
					fmt.Fprint(w, status)
				})
			bad := func() *httptest.ResponseRecorder { return g.get("/", "X-Limit: bogus") }
			is(t, bad(), status, fmt.Sprint(status), miss)
			is(t, g.get("/"), 200, fmt.Sprint(status), kept) // no mark
			time.Sleep(15 * time.Second)
			is(t, bad(), status, fmt.Sprint(status), miss)
			g.ran(3, "while there is an old one")
			var wg sync.WaitGroup
			wg.Go(func() { is(t, bad(), status, fmt.Sprint(status), miss) })
			synctest.Wait()
			if w := g.get("/"); w.Code != 200 {
				t.Errorf("%d: a follower got %d", status, w.Code)
			}
			wg.Wait()
			is(t, g.get("/"), 200, fmt.Sprint(status), kept)
		})
	}
}

// What is no error, but not to be kept, is remembered all the same.
func TestARedirectThatIsNotKeptIsRemembered(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(302) })
	is(t, g.get("/"), 302, "", miss)
	is(t, g.get("/"), 302, "", bypass)
}
