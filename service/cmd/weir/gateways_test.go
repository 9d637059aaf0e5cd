//go:build system

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// originOf answers like an origin, also with statuses that gateways could take for those of weir.
var originOf = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/forbidden":
		w.WriteHeader(http.StatusForbidden)
	case "/broken":
		w.WriteHeader(http.StatusInternalServerError)
	}
	fmt.Fprint(w, "origin")
})

// Behind the real nginx, HAProxy and Envoy with the files of deploy/gateways, a client gets what
// weir serve decides, and nothing of a client but its key reaches weir.
func TestGateways(t *testing.T) {
	for _, g := range gateways(t) {
		t.Run(g.name, func(t *testing.T) {
			s := serving(t, "--rules", filepath.Join(gatewayFiles, "rules.yaml"))
			origin, weir := record(t, originOf), before(t, s)
			url := g.start(t, weir.address(), origin.address(), setting{})
			t.Run("decisions", func(t *testing.T) { testDecisions(t, url, origin) })
			t.Run("isolation", func(t *testing.T) { testIsolation(t, url, origin, weir) })
			t.Run("smuggling", func(t *testing.T) { testSmuggling(t, url, weir) })
			t.Run("hostile keys", func(t *testing.T) { testHostileKeys(t, url, weir) })
			t.Run("addresses", func(t *testing.T) { testAddresses(t, url) })
		})
	}
}

func testDecisions(t *testing.T, url string, origin *recorder) {
	for i := range 13 { // api-key has a burst of 10
		a := ask(t, http.DefaultClient, "GET", url+"/", "X-Api-Key", "alice")
		passed := i < 10
		if want := map[bool]int{true: 200, false: 429}[passed]; a.status != want || (a.body == "origin") != passed {
			t.Fatalf("request %d: %d %q: want %d", i, a.status, a.body, want)
		}
		if !strings.Contains(a.header.Get("RateLimit"), `"api-key";r=`) || !strings.Contains(a.header.Get("RateLimit-Policy"), `"api-key";q=10;w=360`) {
			t.Errorf("request %d: %v", i, a.header)
		}
		again, kind := a.header.Get("Retry-After"), a.header.Get("Content-Type")
		if passed != (again == "") || !passed && (kind != "application/problem+json" || !strings.Contains(a.body, `"status":429`)) {
			t.Errorf("request %d: Retry-After: %q, %s: %s", i, again, kind, a.body)
		}
	}
	if n := len(origin.take()); n != 10 {
		t.Errorf("%d requests reach the origin: want 10", n)
	}
	for path, want := range map[string]int{"/forbidden": 403, "/broken": 500} {
		if a := ask(t, http.DefaultClient, "GET", url+path, "X-Api-Key", "bob"); a.status != want || a.body != "origin" {
			t.Errorf("%s: %d %q: want %d", path, a.status, a.body, want)
		}
	}
	origin.take()
}

// The origin gets the request, and weir gets a request of the gateway.
func testIsolation(t *testing.T, url string, origin, weir *recorder) {
	weir.take()
	const body = "POST /rate/stolen HTTP/1.1\r\nHost: weir\r\n\r\n"
	r, err := http.NewRequest("POST", url+"/rate/a/../b?n=0&x=%zz", strings.NewReader(body))
	fatal(t, err)
	for name, value := range map[string]string{
		"X-Api-Key": "carol", "Weir-Key": "free", "Weir-Address": "192.0.2.1", "Weir-Cost": "0", "Weir-Denied-Status": "499",
		"Authorization": "Bearer of-the-origin", "Cookie": "a=b", "Origin": "https://other.example", "Sec-Fetch-Site": "cross-site", "X-Forwarded-For": "192.0.2.9",
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	fatal(t, err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d: want 200", resp.StatusCode)
	}
	if got := origin.take(); len(got) != 1 || got[0].body != body || got[0].Method != "POST" || got[0].Header.Get("Authorization") != "Bearer of-the-origin" {
		t.Errorf("the origin gets %v", got)
	}
	asked := weir.take()
	if len(asked) != 1 {
		t.Fatalf("weir gets %v: want one request", asked)
	}
	h := asked[0].Header
	if asked[0].body != "" || !strings.HasPrefix(asked[0].URL.Path, "/check") || h.Get("Weir-Key") != "key:carol" || h.Get("Weir-Address") != "127.0.0.1" {
		t.Errorf("weir gets %s %s %q, %q", asked[0].Method, asked[0].URL, asked[0].body, h)
	}
	for _, name := range []string{"Weir-Cost", "Cookie", "Origin", "Sec-Fetch-Site"} {
		if h.Get(name) != "" {
			t.Errorf("weir gets %s: %s", name, h.Get(name))
		}
	}
	if h.Get("Weir-Denied-Status") == "499" || strings.Contains(h.Get("Authorization"), "origin") {
		t.Errorf("weir gets fields of the client: %q", h)
	}
}

// What two servers could read as one or two requests reaches weir as requests of the gateway alone.
func testSmuggling(t *testing.T, url string, weir *recorder) {
	const stolen = "GET /rate/stolen HTTP/1.1\r\nHost: weir\r\nWeir-Key: stolen\r\n\r\n"
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: dave\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + stolen,
		"POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: dave\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"" + "\r\n\r\nabc\r\n0\r\n\r\n" + stolen,
		"POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: dave\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n" + stolen,
		"GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: dave\r\n Weir-Key: stolen\r\n\r\n",
		fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: dave\r\nContent-Length: %d\r\n\r\n%s", len(stolen), stolen),
		"CONNECT /check HTTP/1.1\r\nHost: a\r\nWeir-Key: stolen\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\nWeir-Key: stolen\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		fatal(t, err)
		fmt.Fprint(conn, request)
		_ = conn.(*net.TCPConn).CloseWrite() // no more of a body comes
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		conn.Close()
		for _, got := range weir.take() {
			key := got.Header.Get("Weir-Key") // of Envoy, key: if there is none
			if !strings.HasPrefix(got.URL.Path, "/check") || got.body != "" || key != "" && key != "key:" && !strings.HasPrefix(key, "key:dave") {
				t.Errorf("%q: weir gets %s %s %q, %q", request, got.Method, got.URL, got.body, got.Header)
			}
		}
	}
}

// Values that are no key do not make weir fail, which would let all requests pass.
func testHostileKeys(t *testing.T, url string, weir *recorder) {
	for _, key := range []string{"a\x01b", "a\xffb", strings.Repeat("k", 3000), "", " ", "-", "a b", "ä", `"`, "?n=0", "%zz", "a\tb", "\x7f"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		fatal(t, err)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nConnection: close\r\n\r\n", key)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		fatal(t, err)
		conn.Close()
		asked := weir.take()
		switch {
		case resp.StatusCode == 400 && len(asked) == 0: // refused by the gateway
		case len(asked) != 1 || asked[0].Header.Get("Weir-Address") != "127.0.0.1":
			t.Errorf("%q: weir gets %v", key, asked)
		case resp.StatusCode == 429 && resp.Header.Get("Retry-After") == "": // refused because of the key
		case resp.StatusCode != 200 && resp.StatusCode != 400 || resp.Header.Get("RateLimit") == "": // 400 by the origin
			t.Errorf("%q: %d %v", key, resp.StatusCode, resp.Header)
		}
	}
}

// The limit of an address counts for all keys, and without a key.
func testAddresses(t *testing.T, url string) {
	const most = 1000
	for i := range most { // address has a burst of 60
		a := ask(t, http.DefaultClient, "GET", url+"/", "X-Api-Key", map[bool]string{true: fmt.Sprint("k", i)}[i%2 == 0])
		if a.status == 429 {
			if !strings.Contains(a.header.Get("RateLimit"), `"address";r=0`) || a.header.Get("Retry-After") == "" {
				t.Errorf("%v", a.header)
			}
			return
		}
	}
	t.Errorf("%d requests of one address pass", most)
}

// While weir is away or hangs, requests pass or are refused, as the file says.
func TestGatewaysWithoutWeir(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and does not answer
	fatal(t, err)
	t.Cleanup(func() { silent.Close() })
	broken := record(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	for _, g := range gateways(t) {
		for name, weir := range map[string]string{"gone": "127.0.0.1:" + freePort(t), "hangs": silent.Addr().String(), "broken": broken.address()} {
			for _, open := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/open=%v", g.name, name, open), func(t *testing.T) {
					t.Parallel()
					origin := record(t, originOf)
					url := g.start(t, weir, origin.address(), setting{closed: !open, hasty: true})
					for range 3 {
						r, err := http.NewRequest("POST", url+"/", strings.NewReader("body"))
						fatal(t, err)
						resp, err := http.DefaultClient.Do(r)
						fatal(t, err)
						resp.Body.Close()
						got := origin.take()
						switch {
						case open && (resp.StatusCode != 200 || len(got) != 1 || got[0].body != "body"):
							t.Errorf("%d, the origin gets %v: want 200", resp.StatusCode, got)
						case !open && (resp.StatusCode != 503 || len(got) > 0):
							t.Errorf("%d, the origin gets %v: want 503", resp.StatusCode, got)
						}
					}
				})
			}
		}
	}
}

// While weir hangs, only a part of the requests waits for it: the gateway asks no more for a
// while.
func TestGatewaysHang(t *testing.T) {
	for _, g := range gateways(t) {
		t.Run(g.name, func(t *testing.T) {
			var asked atomic.Int64
			hangs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/check") {
					asked.Add(1)
				}
				if asked.Load() > 0 { // until then, HAProxy has to find it alive
					<-r.Context().Done()
				}
			}))
			t.Cleanup(hangs.Close)
			origin := record(t, originOf)
			url := g.start(t, strings.TrimPrefix(hangs.URL, "http://"), origin.address(), setting{hasty: true})
			const requests = 100
			for sent := 0; sent < requests || asked.Load() == 0 && sent < 20*requests; sent++ {
				if a := ask(t, http.DefaultClient, "GET", url+"/"); a.status != 200 || a.body != "origin" {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			t.Logf("%s asks %d times", g.name, asked.Load())
			if n := asked.Load(); n == 0 || n > requests/2 {
				t.Errorf("%d of %d requests wait for weir", n, requests)
			}
		})
	}
}

// With a token, weir decides. Without it, there is no decision, also for clients that send one.
func TestGatewaysToken(t *testing.T) {
	const secret = "0123456789abcdef"
	tokens := file(t, "tokens.yaml", "tokens: [{name: edge, token: "+secret+"}]")
	s := serving(t, "--rules", filepath.Join(gatewayFiles, "rules.yaml"), "--tokens", tokens)
	origin := record(t, originOf)
	for _, g := range gateways(t) {
		for _, token := range []string{secret, ""} {
			t.Run(fmt.Sprintf("%s/%q", g.name, token), func(t *testing.T) {
				url := g.start(t, strings.TrimPrefix(s.public, "http://"), origin.address(), setting{token: token})
				a := ask(t, http.DefaultClient, "GET", url+"/", "X-Api-Key", g.name, "Authorization", "Bearer "+secret)
				if decided := a.header.Get("RateLimit") != ""; a.status != 200 || decided != (token != "") {
					t.Errorf("%d %v: want a decision: %v", a.status, a.header, token != "")
				}
			})
		}
	}
}

// A weir that restarts decides again, without a restart of the gateway.
func TestGatewaysRestart(t *testing.T) {
	port, origin, urls := freePort(t), record(t, originOf), map[string]string{}
	rules := filepath.Join(gatewayFiles, "rules.yaml")
	s := serving(t, "--rules", rules, "--listen", "127.0.0.1:"+port)
	for _, g := range gateways(t) {
		urls[g.name] = g.start(t, "127.0.0.1:"+port, origin.address(), setting{})
	}
	decided := func(want bool) {
		t.Helper()
		for name, url := range urls {
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				a := ask(t, http.DefaultClient, "POST", url+"/", "X-Api-Key", name)
				if (a.header.Get("RateLimit") != "") == want {
					break
				}
				if a.status != 200 && a.status != 429 || time.Now().After(deadline) {
					t.Fatalf("%s: %d %v: want a decision: %v", name, a.status, a.header, want)
				}
			}
		}
	}
	decided(true)
	s.end()
	decided(false)
	serving(t, "--rules", rules, "--listen", "127.0.0.1:"+port)
	decided(true)
}
