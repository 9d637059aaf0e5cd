package httpcache

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/testrig"
)

// What a request changes without an error is not answered out of the cache any
// more (RFC 9111, 4.4).
func TestUnsafeMethodsInvalidate(t *testing.T) {
	for _, lim := range []weir.Limiter{nil, new(testrig.Limiter)} {
		for _, tt := range []struct {
			method string
			status int
			gone   bool
		}{
			{"POST", 0, true}, {"PUT", 204, true}, {"DELETE", 303, true}, {"PATCH", 200, true}, {"OWN", 201, true},
			{"POST", 404, false}, {"POST", 500, false}, {"OPTIONS", 200, false}, {"TRACE", 200, false},
		} {
			g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "GET" && tt.status != 0 {
					w.WriteHeader(tt.status)
				}
			})
			g.get("/a")
			g.get("/b")
			g.do(testrig.Request(tt.method, "/a"))
			if got := g.get("/a").Header().Get("Cache-Status"); (got == kept) != tt.gone {
				t.Errorf("%s %d: %s: want it gone: %v", tt.method, tt.status, got, tt.gone)
			}
			if got := g.get("/b").Header().Get("Cache-Status"); !strings.HasPrefix(got, "weir; hit") {
				t.Errorf("%s %d: of something else: %s", tt.method, tt.status, got)
			}
		}
	}
}

// A middleware around the cache that encodes what it gets does not send the
// length of what it got.
func TestAnOuterEncodingHasNoLengthOfOurs(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"plain": text("0123456789", `ETag: "v"`), "encoded": text("0123456789", "Content-Encoding: br"),
	} {
		g := newRig(t, Config{DefaultTTL: time.Minute}, h)
		for _, headers := range [][]string{nil, nil, {"Range: bytes=2-4"}, {`If-None-Match: "w"`}} {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Encoding", "gzip")
			g.handler.ServeHTTP(w, testrig.Request("GET", "/", headers...))
			if _, ok := w.Header()["Content-Length"]; ok && name == "plain" || w.Code != 200 && name == "plain" {
				t.Errorf("%s %v: %d %v", name, headers, w.Code, w.Header())
			}
			if _, ok := w.Header()["Content-Length"]; !ok && name == "encoded" && headers == nil {
				t.Errorf("%s %v: %d %v", name, headers, w.Code, w.Header())
			}
		}
	}
}

// A proxy before us that ends TLS says so: then what is kept for plain HTTP,
// such as a redirect to https, is not the answer.
func TestForwardedProtoIsPartOfTheKey(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
			http.Redirect(w, r, "https://example.com/", http.StatusMovedPermanently)
		}
	})
	for range 2 {
		for _, h := range []string{"X: y", "X-Forwarded-Proto: http", "X-Forwarded-Proto: ", "X-Forwarded-Proto: https, http"} {
			if w := g.get("/", h); w.Code != 301 {
				t.Errorf("%s: %d", h, w.Code)
			}
		}
		if w := g.get("/", "X-Forwarded-Proto: https", "X-Forwarded-Proto: http"); w.Code != 301 {
			t.Errorf("two values: %d: want them not taken for https", w.Code)
		}
		for _, h := range []string{"X-Forwarded-Proto: https", "X-Forwarded-Proto: HTTPS"} {
			if w := g.get("/", h); w.Code != 200 {
				t.Errorf("%s: %d: a loop", h, w.Code)
			}
		}
	}
	g.ran(2, "for two")
}

// A client without TLS that claims to have it does not get a redirect kept for the
// clients with TLS, which would be a loop for them.
func TestTLSCannotBeClaimed(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			http.Redirect(w, r, "https://example.com/", http.StatusMovedPermanently)
		}
	})
	if w := g.get("/", "X-Forwarded-Proto: https"); w.Code != 301 {
		t.Errorf("without TLS: %d", w.Code)
	}
	for range 2 {
		r := testrig.Request("GET", "/")
		r.TLS = &tls.ConnectionState{}
		if w := g.do(r); w.Code != 200 {
			t.Errorf("with TLS: %d: a loop", w.Code)
		}
	}
	g.ran(2, "for two")
	g.Delete(testrig.Request("GET", "/"))
	g.get("/", "X-Forwarded-Proto: https")
	g.ran(3, "after Delete")
}

func TestAnOfferOfH2cIsNoUpgrade(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["Upgrade"], r.Header["Http2-Settings"], r.Header["Connection"])
	})
	for range 2 {
		w := g.get("/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA")
		if w.Body.String() != "[] [] []" && g.runs.Load() == 1 {
			t.Errorf("%s: the handler sees the offer", w.Body)
		}
	}
	g.ran(1, "for two")
	g.get("/", "Upgrade: h2c, websocket")
	g.ran(2, "for another protocol")
}

// A limiter never rejects what is kept, not even for requests with no-store.
func TestNoStoreIsAnsweredByWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := new(testrig.Limiter)
		g := newRig(t, Config{DefaultTTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour, Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", "Accept")
			fmt.Fprint(w, r.Header.Get("Accept"))
		})
		const noStore = "Cache-Control: no-store"
		is(t, g.get("/", noStore), 200, "", byRequest)
		is(t, g.get("/", "Accept: a"), 200, "a", kept)
		is(t, g.get("/", noStore, "Accept: b"), 200, "b", byRequest)
		lim.Reject(weir.Reject(weir.OverLimit, 0))
		for range 2 {
			is(t, g.get("/", noStore, "Accept: a"), 200, "a", "weir; hit; ttl=60")
		}
		lim.Reject(nil)
		time.Sleep(2 * time.Minute)
		is(t, g.get("/", noStore, "Accept: a"), 200, "a", byRequest)
		if s := g.Stats(); s.Lookups[cache.Hit] != 2 || s.Passed != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// PerKey gets what Key said of the client's request, not of the handler's, and
// Key is asked once.
func TestPerKeyGetsTheKeyOfTheClientsRequest(t *testing.T) {
	for _, headers := range []string{"X: y", "Cache-Control: private"} {
		var texts []string
		asked := 0
		g := newRig(t, Config{DefaultTTL: time.Minute, IgnoreCookies: true, Key: func(r *http.Request) (string, bool) {
			asked++
			return r.Header.Get("Cookie") + r.Header.Get("Range") + r.URL.Host, true
		}, PerKey: func(text string) weir.Limiter { texts = append(texts, text); return nil }}, text("v", headers))
		for range 2 {
			g.get("http://example.com/", "Cookie: me", "Range: bytes=0-")
		}
		if asked != 2 || strings.Join(texts, ",")+"," != strings.Repeat("mebytes=0-example.com,", len(texts)) || len(texts) == 0 {
			t.Errorf("%s: asked %d times, %q: want once for each request, of that", headers, asked, texts)
		}
	}
}

type failingFlusher struct{ *httptest.ResponseRecorder }

func (failingFlusher) FlushError() error { return io.ErrClosedPipe }

func TestFlushSaysWhatFailed(t *testing.T) {
	var err error
	g := newRig(t, Config{Refresh: cache.Refresh{Limiter: new(testrig.Limiter)}}, func(w http.ResponseWriter, r *http.Request) {
		err = http.NewResponseController(w).Flush()
	})
	g.handler.ServeHTTP(failingFlusher{httptest.NewRecorder()}, testrig.Request("POST", "/"))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v: want the error of the server's", err)
	}
}

// Of other units than bytes, and for HEAD, a Range says nothing.
func TestRangesAreOfBytesForGET(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("0123456789", `ETag: "v"`))
	for _, tt := range []struct {
		method, value string
		status        int
	}{
		{"GET", "bytes=2-4", 206}, {"GET", "lines=2-4", 200}, {"GET", "bytes 2-4", 200}, {"HEAD", "bytes=2-4", 200}, {"HEAD", "bytes=99-", 200},
	} {
		r := testrig.Request(tt.method, "/", "Range: "+tt.value)
		if w := g.do(r); w.Code != tt.status || r.Header.Get("Range") != tt.value {
			t.Errorf("%s %s: %d, %v: want %d", tt.method, tt.value, w.Code, r.Header, tt.status)
		}
		if w := g.do(testrig.Request(tt.method, "/", "Range: "+tt.value, `If-None-Match: "v"`)); w.Code != 304 {
			t.Errorf("%s %s: %d: want 304 all the same", tt.method, tt.value, w.Code)
		}
	}
}

// A response is as old as its Age or its Date says, whichever is more.
func TestAgeByAgeOrDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := func(d time.Duration) string { return "Date: " + time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, tt := range []struct {
			headers []string
			ttl     int
		}{
			{[]string{"Age: 10, 50"}, 50}, {[]string{"Age:  10 "}, 50}, {[]string{date(-20 * time.Second)}, 40},
			{[]string{"Age: 10", date(-20 * time.Second)}, 40}, {[]string{"Age: 30", date(-20 * time.Second)}, 30},
			{[]string{date(20 * time.Second)}, 60}, {[]string{"Date: never"}, 60},
		} {
			g := newRig(t, Config{DefaultTTL: time.Minute}, text("v", tt.headers...))
			g.get("/")
			w := g.get("/")
			if got, want := w.Header().Get("Cache-Status"), fmt.Sprint("weir; hit; ttl=", tt.ttl); got != want || w.Header().Get("Age") != fmt.Sprint(60-tt.ttl) {
				t.Errorf("%v: %s, Age %s: want %s", tt.headers, got, w.Header().Get("Age"), want)
			}
		}
	})
}

// No Date, however old, makes an Age that overflows.
func TestAnAncientDateIsNoNegativeAge(t *testing.T) {
	a := &answers{status: 500, headers: []string{"Date: Mon, 01 Jan 0001 00:00:00 GMT"}}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, a.serve)
		g.get("/")
		time.Sleep(time.Minute)
		if age := g.get("/").Header().Get("Age"); age != fmt.Sprint(1<<31+60) {
			t.Errorf("Age: %s: want about 2^31", age)
		}
	})
}

// What is remembered of a resource that varies is no larger than what it says.
func TestMarksDoNotHoldALongVary(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("v", "Vary: "+strings.Repeat("A, ", 10_000)))
	g.get("/")
	r := testrig.Request("GET", "/")
	v, ok := g.answers.Peek(g.key(r, g.name(r), 1, r.Method, 0))
	if !ok || v.mark == nil || cap(v.mark.names) > 4 {
		t.Errorf("%v %v: want room for one name", v, ok)
	}
}

// Of what is around the path, the URL is Delete's as the handler sees it.
func TestDeleteTakesTheURLThatTheHandlerSees(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("v"))
	stripped := http.StripPrefix("/api", g.handler)
	get := func() {
		stripped.ServeHTTP(httptest.NewRecorder(), testrig.Request("GET", "/api/x").WithContext(context.Background()))
	}
	get()
	u, _ := url.Parse("http://example.com/x")
	g.Delete(&http.Request{Method: "GET", URL: u, Host: "example.com"})
	get()
	g.ran(2, "after Delete")
}
