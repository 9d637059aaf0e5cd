package httpcache

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/testrig"
)

// serve starts a server for both versions of HTTP, and returns a client for
// each, and what to ask.
func serve(t *testing.T, h http.Handler) map[string]func(method, path string, headers ...string) *http.Response {
	clients := make(map[string]func(method, path string, headers ...string) *http.Response)
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = version == "HTTP/2.0"
		s.StartTLS()
		t.Cleanup(s.Close)
		client := s.Client()
		client.Transport.(*http.Transport).DisableCompression = true
		clients[version] = func(method, path string, headers ...string) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
			testrig.Must(t, err)
			testrig.AddHeader(r.Header, headers...)
			resp, err := client.Do(r)
			testrig.Must(t, err)
			if resp.Proto != version {
				t.Fatalf("%s: want %s", resp.Proto, version)
			}
			t.Cleanup(func() { resp.Body.Close() })
			return resp
		}
	}
	return clients
}

func body(t *testing.T, r *http.Response) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// What goes through the cache comes as it would from the handler itself.
func TestAnswersAreAsThoseOfNetHTTP(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"html":    text("<!doctype html><p>"),
		"png":     text("\x89PNG\x0D\x0A\x1A\x0A...."),
		"typed":   text("{}", "Content-Type: application/json", "X-Two: 1", "X-Two: 2"),
		"untyped": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "x")
		},
		"encoded":  text("zzz", "Content-Encoding: gzip"),
		"declared": text("12345", "Content-Length: 5"),
		"twice": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(404)
			w.Header().Set("X-Late", "no")
			fmt.Fprint(w, "not here")
		},
		"204": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204); fmt.Fprint(w, "no") },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/else", http.StatusMovedPermanently)
		},
		"error": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "oops", 500) },
		"connection": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("Keep-Alive", "x")
			fmt.Fprint(w, "x")
		},
		"file": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader("0123456789"))
		},
	}
	c, err := New(Config{DefaultTTL: time.Minute})
	testrig.Must(t, err)
	mux := http.NewServeMux()
	for name, h := range handlers {
		name = strings.ReplaceAll(name, " ", "-")
		mux.Handle("/bare/"+name, h)
		mux.Handle("/kept/"+name, http.StripPrefix("/kept/"+name, c.Handler(http.StripPrefix("", h))))
	}
	for version, do := range serve(t, mux) {
		for name := range handlers {
			name = strings.ReplaceAll(name, " ", "-")
			for _, headers := range [][]string{nil, {"Range: bytes=2-4"}, {`If-None-Match: "v1"`}, {`If-None-Match: "v2"`},
				{"If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT"}, {"Range: bytes=99-"}, {"Range: bytes=1-2", `If-Range: "v2"`}} {
				if len(headers) > 0 && name != "file" {
					continue // others do not know of ranges, but the cache does
				}
				for _, method := range []string{"GET", "HEAD"} {
					if method == "HEAD" && strings.HasPrefix(fmt.Sprint(headers), "[Range") {
						continue // which is not for HEAD (RFC 9110, 14.2), but net/http heeds it
					}
					want := do(method, "/bare/"+name, headers...)
					wantBody := body(t, want)
					if method == "HEAD" && name == "nothing" { // the kept response to GET says so
						want.Header.Set("Content-Length", "0")
						want.ContentLength = 0
					}
					for range 2 {
						got := do(method, "/kept/"+name, headers...)
						gotBody := body(t, got)
						for _, h := range []string{"Cache-Status", "Age", "Date", "Connection", "X-Hop", "Keep-Alive", "Accept-Ranges"} {
							got.Header.Del(h)
							want.Header.Del(h)
						}
						same := maps.EqualFunc(got.Header, want.Header, slices.Equal)
						if gotBody != wantBody || got.StatusCode != want.StatusCode || !same || got.ContentLength != want.ContentLength {
							t.Errorf("%s %s %s %v:\n%d %q %v\nwant:\n%d %q %v", version, method, name, headers,
								got.StatusCode, gotBody, got.Header, want.StatusCode, wantBody, want.Header)
						}
					}
				}
			}
		}
	}
}

// Of a response that the handler knows no parts of, parts come out of the cache.
func TestPartsOfAKeptResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			for _, name := range conditions {
				if r.Header[name] != nil {
					t.Errorf("the handler sees %s", name)
				}
			}
			text("0123456789", `ETag: "v"`)(w, r)
		})
		w := g.get("/", "Range: bytes=2-4")
		is(t, w, 206, "234", "weir; fwd=miss; stored")
		if w.Header().Get("Content-Range") != "bytes 2-4/10" || w.Header().Get("Content-Length") != "3" {
			t.Errorf("%v", w.Header())
		}
		is(t, g.get("/"), 200, "0123456789", "weir; hit; ttl=60")
		is(t, g.get("/", `If-None-Match: W/"v"`), 304, "", "weir; hit; ttl=60")
		g.ran(1, "for all of them")
	})
}

// What does not fit runs twice, and streams.
func TestStreams(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"event stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			}
		},
		"too large": func(w http.ResponseWriter, r *http.Request) {
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintf(w, "data: %d\n\n", i)
			}
		},
		"of a proxy": func(w http.ResponseWriter, r *http.Request) {
			s := httptest.NewServer(text("data: 0\n\n" + strings.Repeat("x", 2000)))
			defer s.Close()
			u, _ := url.Parse(s.URL)
			httputil.NewSingleHostReverseProxy(u).ServeHTTP(w, r) // panics if it cannot write
		},
	} {
		t.Run(name, func(t *testing.T) {
			lim := new(testrig.Limiter)
			g := newRig(t, Config{DefaultTTL: time.Minute, MaxBody: 1000, Refresh: cache.Refresh{Limiter: lim}}, h)
			for version, do := range serve(t, g.handler) {
				before := g.runs.Load()
				for range 2 {
					resp := do("GET", "/"+version)
					if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "data: 0\n" || err != nil {
						t.Errorf("%s: %q, %v", version, line, err)
					}
					if s := resp.Header.Get("Cache-Status"); s != "weir; fwd=bypass" {
						t.Errorf("%s: %s", version, s)
					}
					resp.Body.Close()
				}
				g.ran(before+3, "twice, and then only once")
			}
		})
	}
}

func TestTrailersComeThrough(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "x")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	})
	for version, do := range serve(t, g.handler) {
		resp := do("GET", "/")
		if body(t, resp); resp.Trailer.Get("X-Sum") != "1" {
			t.Errorf("%s: %v", version, resp.Trailer)
		}
	}
}

// Past the cache the handler has the ResponseWriter itself, or one that does as
// much.
func TestPastTheCache(t *testing.T) {
	for _, lim := range []weir.Limiter{nil, new(testrig.Limiter)} {
		var got http.ResponseWriter
		g := newRig(t, Config{DefaultTTL: time.Minute, Key: func(r *http.Request) (string, bool) { return "", r.URL.Path != "/no" }, Refresh: cache.Refresh{Limiter: lim}},
			func(w http.ResponseWriter, r *http.Request) { got = w })
		for _, r := range []*http.Request{
			testrig.Request("POST", "/"), testrig.Request("DELETE", "/"), httptest.NewRequest("GET", "/", strings.NewReader("x")),
			testrig.Request("GET", "/", "Upgrade: websocket"), testrig.Request("GET", "/", "Cache-Control: No-Store"), testrig.Request("GET", "/no"),
		} {
			for range 2 {
				w := httptest.NewRecorder()
				g.handler.ServeHTTP(w, r)
				if lim == nil && got != w && safe(r.Method) {
					t.Errorf("%s %v: %T: want what the server gave", r.Method, r.URL, got)
				}
				if f, ok := got.(http.Flusher); !ok {
					t.Errorf("%T: want a Flusher", got)
				} else if f.Flush(); !w.Flushed {
					t.Errorf("%T does not flush", got)
				}
			}
		}
		if s := g.Stats(); s.Passed != 12 || s.Entries != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestHijackPastTheCache(t *testing.T) {
	lim := new(testrig.Limiter)
	g := newRig(t, Config{Refresh: cache.Refresh{Limiter: lim}}, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Errorf("%T: want a ReaderFrom", w)
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello")
	})
	ended := make(chan struct{})
	do := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		g.handler.ServeHTTP(w, r)
	}))["HTTP/1.1"]
	resp := do("GET", "/", "Connection: upgrade", "Upgrade: echo")
	if got := body(t, resp); resp.StatusCode != 101 || got != "hello" {
		t.Errorf("%d %q", resp.StatusCode, got)
	}
	<-ended // the handler's end, and the answer's, come in any order
	lim.WantEnded(t, weir.Ignored)
}

// What others have set stays, and what they do to what they find is theirs.
func TestHeadersOfOuterMiddleware(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("v", "Vary: Accept", "X-In: in", "X-Both: in", "Cache-Status: inner"))
	for range 3 {
		w := httptest.NewRecorder()
		h := w.Header()
		h.Set("X-Out", "out")
		h.Set("X-Both", "out")
		h.Set("Vary", "Origin")
		h.Set("Cache-Status", "outer")
		g.handler.ServeHTTP(w, testrig.Request("GET", "/"))
		if h.Get("X-Out") != "out" || h.Get("X-Both") != "in" || h.Get("X-In") != "in" || strings.Join(h["Vary"], ",") != "Origin,Accept" ||
			!strings.HasPrefix(strings.Join(h["Cache-Status"], ", "), "outer, inner, weir; ") {
			t.Errorf("%v", h)
		}
		h["X-In"][0] = "changed"
	}
	g.ran(1, "after all")
}

// A cookie of an outer middleware is not lost to one of the handler.
func TestCookiesOfOuterMiddleware(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("v", "Set-Cookie: inner=1"))
	for range 2 {
		w := httptest.NewRecorder()
		w.Header().Set("Set-Cookie", "outer=1")
		g.handler.ServeHTTP(w, testrig.Request("GET", "/"))
		if got := strings.Join(w.Header()["Set-Cookie"], ","); got != "outer=1,inner=1" {
			t.Error(got)
		}
	}
}

// Many clients, each with a cookie: no client gets another's response.
func TestStorm(t *testing.T) {
	c, err := New(Config{DefaultTTL: time.Millisecond, Bytes: 50_000, MaxBody: 5000, Pass: time.Millisecond, Refresh: cache.Refresh{Stale: time.Millisecond, Background: 16, Early: 1}})
	testrig.Must(t, err)
	defer c.Close()
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		me := r.Header.Get("Cookie")
		switch r.URL.Path {
		case "/private":
			w.Header().Set("Cache-Control", "private")
		case "/cookie":
			w.Header().Set("Set-Cookie", me)
			w.Header().Set("Cache-Control", "public, max-age=60")
		case "/vary":
			w.Header().Set("Vary", "cookie")
			w.Header().Set("Cache-Control", "public")
		case "/error":
			w.Header().Set("Set-Cookie", me)
			w.WriteHeader(500)
		case "/large":
			fmt.Fprint(w, strings.Repeat(" ", 6000))
		case "/public":
			w.Header().Set("Cache-Control", "public")
			// The body is not empty: http.Transport reuses a connection before the caller of a
			// bodiless response has it. If that caller cancels, the next request on it fails.
			me = "all"
		}
		fmt.Fprint(w, me)
	}))
	s := httptest.NewServer(h)
	defer s.Close()
	client := s.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 16
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			me := fmt.Sprint("client=", i)
			for range 200 {
				path := []string{"/private", "/cookie", "/vary", "/error", "/large", "/public", "/plain"}[rand.IntN(7)]
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(20) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
				}
				r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
				r.Header.Set("Cookie", me)
				resp, err := client.Do(r)
				if err == nil {
					var b []byte
					b, err = io.ReadAll(resp.Body)
					resp.Body.Close()
					want := me
					if path == "/public" {
						want = "all"
					}
					cookie := resp.Header.Get("Set-Cookie")
					if err == nil && (strings.TrimSpace(string(b)) != want || cookie != "" && cookie != me) {
						t.Errorf("%s %s: %q, %q", path, me, b, cookie)
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", path, err)
				}
				if rand.IntN(100) == 0 {
					c.Delete(r)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Bytes > 50_000 || s.Lookups[cache.Filled] == 0 {
		t.Errorf("%+v", s)
	}
}

// A certificate of the client is a credential.
func TestClientCertificates(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Minute}, text("v"))
	for range 2 {
		r := testrig.Request("GET", "https://example.com/")
		r.TLS = &tls.ConnectionState{PeerCertificates: make([]*x509.Certificate, 1)}
		g.do(r)
	}
	g.ran(2, "for each of two")
}
