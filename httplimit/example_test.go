package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// With nothing to configure, the work of each route is kept at what it can bear.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("GET /hello", hello)
	limited := httplimit.Handler(mux)
	srv := httptest.NewServer(limited) // or http.ListenAndServe
	defer srv.Close()

	resp, err := http.Get(srv.URL + "/hello")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status)
	for _, c := range limited.Stats().Classes {
		fmt.Println(c.Class, c.Admitted)
	}
	// Output:
	// 200 OK
	// GET /hello 1
}

// A limit that begins low after its start, an outage or an idle time, because the caches behind
// the handlers are cold then. It begins at 1, and doubles with the first success.
func ExampleConfig_slowStart() {
	m, err := httplimit.New(httplimit.Config{PerClass: func(string) weir.Limiter {
		auto, err := limit.NewAuto(limit.Config{})
		if err != nil {
			panic(err) // the configuration is constant
		}
		slow, err := limit.NewSlowStart(auto, limit.SlowStart{Idle: 5 * time.Minute})
		if err != nil {
			panic(err)
		}
		lim, err := inflight.New(inflight.Config{Algorithm: slow})
		if err != nil {
			panic(err)
		}
		return lim
	}})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	m.Handler(hello).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, m.Stats().Classes[0].Limiter.Limit)
	// Output: 200 2
}

// Two at once for each address, and one more every half minute.
func ExamplePerKey() {
	perClient, err := keyed.New[netip.Addr](gcra.Per(2, time.Minute, 2), keyed.Config{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Config{
		Rules:    []httplimit.Rule{httplimit.PerKey("per-client", perClient, httplimit.Address())},
		PerClass: httplimit.Auto, // and the work, too
	})
	if err != nil {
		log.Fatal(err)
	}
	h := m.Handler(hello)

	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/hello", nil))
		h := w.Header()
		fmt.Printf("%d; %s; %s; retry after %q\n", w.Code, h.Get("RateLimit-Policy"), h.Get("RateLimit"), h.Get("Retry-After"))
	}
	// Output:
	// 200; "per-client";q=2;w=60; "per-client";r=1;t=30; retry after ""
	// 200; "per-client";q=2;w=60; "per-client";r=0;t=30; retry after ""
	// 429; "per-client";q=2;w=60; "per-client";r=0;t=30; retry after "30"
}

// One request of each address at once: a client that sends a second one while the first is in
// flight is refused.
func ExamplePerKey_inflight() {
	perClient, err := keyed.NewInflight[netip.Addr](1, keyed.Config{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Config{
		Rules: []httplimit.Rule{httplimit.PerKey("in-flight", perClient, httplimit.Address())},
	})
	if err != nil {
		log.Fatal(err)
	}
	var h http.Handler
	get := func(path string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	h = m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			get("/second") // while the first is in flight
		}
	}))
	get("/first")
	get("/third")
	// Output:
	// /second 429 "in-flight";q=1;qu="concurrent-requests"
	// /first 200 "in-flight";q=1;qu="concurrent-requests"
	// /third 200 "in-flight";q=1;qu="concurrent-requests"
}

// Credits is a limit of this program: the requests that each user has paid for.
type Credits struct {
	mu   sync.Mutex
	paid map[string]int
}

func (c *Credits) Decide(_ context.Context, user string, n int) (keyed.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.paid[user] - n
	if left < 0 {
		return keyed.Verdict{Decision: weir.Decision{Remaining: c.paid[user], RetryAfter: weir.Never}}, nil
	}
	c.paid[user] = left
	return keyed.Verdict{
		Decision: weir.Decision{OK: true, Remaining: left},
		Policy:   keyed.Policy{Limit: 1000}, // most credits
	}, nil
}

// A rule of a limit of the program.
func ExamplePerKey_own() {
	credits := &Credits{paid: map[string]int{"alice": 1}}
	m, err := httplimit.New(httplimit.Config{
		Rules: []httplimit.Rule{httplimit.PerKey("credits", credits, httplimit.Header("X-User"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", "alice")
		m.Handler(hello).ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "credits";r=0
	// 429
}

// Clients behind a proxy in 10.0.0.0/8, which reports their addresses.
func ExampleAddressBehind() {
	client := httplimit.AddressBehind("X-Forwarded-For", netip.MustParsePrefix("10.0.0.0/8"))

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.1.2.3:4567"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 198.51.100.7") // the proxy has added the last
	fmt.Println(client(r))

	r.RemoteAddr = "203.0.113.9:4567" // no proxy of ours
	fmt.Println(client(r))
	// Output:
	// 198.51.100.7 true
	// 203.0.113.9 true
}

// A thousand rows a minute, however many a request turns out to read.
func ExampleUse() {
	rows := rate.New(gcra.Per(1000, time.Minute, 1000), rate.Config{})
	m, err := httplimit.New(httplimit.Config{Rules: []httplimit.Rule{httplimit.Overall("rows", rows)}})
	if err != nil {
		log.Fatal(err)
	}
	query := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		httplimit.Use(w, 400) // rows read
	}))

	for range 4 {
		w := httptest.NewRecorder()
		query.ServeHTTP(w, httptest.NewRequest("GET", "/rows", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 200
	// 429
}
