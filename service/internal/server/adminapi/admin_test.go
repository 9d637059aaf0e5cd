package adminapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

var update = flag.Bool("update", false, "write the golden files")

// ask sends a request to the API as curl would.
func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get[T any](t *testing.T, h http.Handler, path string) (v T) {
	t.Helper()
	w := ask(h, "GET", path)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 {
		t.Fatalf("%s: %d, %s: %v", path, w.Code, w.Body, err)
	}
	return v
}

// golden compares an answer with testdata.
func golden(t *testing.T, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, w.Body.Bytes(), "", "  "); err != nil {
		t.Fatalf("%s: %v: %s", name, err, w.Body)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is not what it was (-update writes it anew):\n%s", name, &got)
	}
}

func newServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Rules: rules()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decide(s *server.Server, times int, key string) {
	var v decider.Verdict
	for range times {
		_ = s.Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v)
	}
}

// What the API answers, to the letter. It is a promise.
func TestAnswers(t *testing.T) {
	for !testAnswers(t) && !t.Failed() {
	}
}

// testAnswers returns false if the two keys of login share a page of memory, as for one
// of a thousand seeds. The golden files have two pages.
func testAnswers(t *testing.T) (ok bool) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		began := time.Now()
		api := adminapi.New(adminapi.Config{Server: s, ConfigStatus: func() adminapi.ConfigStatus {
			return adminapi.ConfigStatus{
				Path: "rules.yaml", Hash: "3f2a90c1d5e7", Success: began, Failure: began.Add(7 * time.Second), Error: errFile,
			}
		}})
		defer api.Close()
		for _, by := range []string{"denied", "requests"} {
			get[adminapi.Top](t, api, "/-/top?by="+by) // rates begin with the first request
		}
		decide(s, 100, "login:mallory")
		decide(s, 70, hostile)
		const page = 4096 + 8
		login, fresh := s.Stats().Rules[0].Memory, newServer(t).Stats().Rules[0].Memory
		if ok = login != fresh+page; !ok {
			return
		}
		decide(s, 60, "user:42")
		decide(s, 8, "batch:nightly")
		for range 3 {
			go func() {
				var v decider.Verdict
				_ = s.Wait(t.Context(), &decider.Request{Key: "mail:7", N: 3}, &v)
			}()
		}
		for range 2 {
			if _, err := s.Acquire(t.Context(), decider.LeaseRequest{Key: "export:1", N: 2}); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Acquire(t.Context(), decider.LeaseRequest{Key: "export:1", N: 1}); !errors.Is(err, weir.ErrRejected) {
			t.Error(err)
		}
		time.Sleep(900 * time.Millisecond)
		golden(t, "status.json", ask(api, "GET", "/-/status?since=0"))
		golden(t, "denied.json", ask(api, "GET", "/-/top"))
		golden(t, "requests.json", ask(api, "GET", "/-/top?by=requests&n=2"))
		golden(t, "waiting.json", ask(api, "GET", "/-/top?by=waiting"))
		golden(t, "explain-denied.json", ask(api, "GET", "/-/explain?key=login:mallory"))
		golden(t, "explain-leases.json", ask(api, "GET", "/-/explain?key=export:1"))
		golden(t, "explain-waiting.json", ask(api, "GET", "/-/explain?key=mail:7"))
	})
	return ok
}

// The status says first that the store is away.
func TestStoreAway(t *testing.T) {
	var store server.StoreStats
	store.Instances, store.Decisions[decider.Share] = 3, 7
	api := adminapi.New(adminapi.Config{Server: newServer(t), Store: func() server.StoreStats { return store }})
	defer api.Close()
	for _, store.Away = range []bool{false, true} {
		st := get[adminapi.Status](t, api, "/-/status")
		if st.Store == nil || st.Store.Away != store.Away || st.Store.Instances != 3 || st.Store.Decisions["share"] != 7 || strings.HasPrefix(st.Words, "The store of shared limits does not answer") != store.Away {
			t.Errorf("%q, %+v, want away %v", st.Words, st.Store, store.Away)
		}
	}
}

// The status tells about the upstream, and why it is away.
func TestUpstreamState(t *testing.T) {
	var tier server.TierStats
	tier.Leaves, tier.Keys, tier.Assigned, tier.Leases, tier.Decisions[decider.Share] = 3, 9, 7, 2, 5
	api := adminapi.New(adminapi.Config{Server: newServer(t), Upstream: func() server.TierStats { return tier }, UpstreamURL: "http://up"})
	defer api.Close()
	for _, tier.Reason = range []error{nil, errors.New("it is silent")} {
		tier.Away = tier.Reason != nil
		st := get[adminapi.Status](t, api, "/-/status")
		u := st.Upstream
		if u == nil || u.URL != "http://up" || u.Away != tier.Away || (u.Error == "it is silent") != tier.Away || u.Leaves != 3 || u.Keys != 9 || u.Assigned != 7 ||
			u.Leases != 2 || u.Decisions["share"] != 5 || strings.HasPrefix(st.Words, "The upstream of the limits does not answer") != tier.Away {
			t.Errorf("%q, %+v, want away %v", st.Words, u, tier.Away)
		}
	}
}

// The status tells about each member, and says first that there is no quorum.
func TestPeersState(t *testing.T) {
	fleet := someFleet()
	api := adminapi.New(adminapi.Config{Server: newServer(t), Peers: func() ring.Stats { return fleet }})
	defer api.Close()
	for _, fleet.Quorum = range []bool{false, true} {
		st := get[adminapi.Status](t, api, "/-/status")
		if st.Peers == nil || st.Peers.Quorum != fleet.Quorum || strings.HasPrefix(st.Words, "This instance sees half of its peers or less") == fleet.Quorum {
			t.Errorf("%q, %+v, want quorum %v", st.Words, st.Peers, fleet.Quorum)
		}
		want := []adminapi.PeerState{
			{Name: "weir-0", URL: "http://10.0.0.1:8080", Status: "live", SinceMS: 60_000, Slots: 32_768, Rules: "3f2a90c1d5e7"},
			{Name: "weir-1", URL: "http://10.0.0.2:8080", Status: "live", SinceMS: 60_000, Slots: 32_768, Rules: "0123456789ab", Forwarded: 12, Failed: 1, RoundTripMS: 0.4, OnlyHere: []string{"weir-2"}},
			{Name: "weir-2", URL: "http://10.0.0.3:8080", Status: "dead", SinceMS: 5000, Error: "connection refused"},
		}
		if !reflect.DeepEqual(st.Peers.Members, want) {
			t.Errorf("%+v, want %+v", st.Peers.Members, want)
		}
	}
}

// someFleet is a fleet with a member that is live and has other rules, and one that is dead.
func someFleet() ring.Stats {
	st := ring.Stats{Self: "weir-0", Quorum: true}
	st.Decisions[decider.Exact], st.Decisions[decider.Share] = 40, 2
	for i, m := range []ring.MemberStats{
		{Rules: "3f2a90c1d5e7"},
		{Rules: "0123456789ab", Forwarded: 12, Failed: 1, Lists: census.Difference{OnlyHere: []string{"weir-2"}}, Link: &peer.Stats{Latency: 400 * time.Microsecond, State: peer.State{Up: true}}},
		{Status: census.Dead, Link: &peer.Stats{Latency: time.Second, State: peer.State{Err: errors.New("connection refused")}}},
	} {
		m.Name, m.URL = fmt.Sprintf("weir-%d", i), fmt.Sprintf("http://10.0.0.%d:8080", i+1)
		if m.Since = 5 * time.Second; m.Status == census.Live {
			m.Since, m.Slots = time.Minute, 32_768
		}
		st.Members = append(st.Members, m)
	}
	return st
}

// Rates cover the last seconds, not all time.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		api := adminapi.New(adminapi.Config{Server: s})
		defer api.Close()
		if st := get[adminapi.Status](t, api, "/-/status"); st.WindowMS != 0 || st.Words != "No rates yet: the server has just started." {
			t.Errorf("at first: window %d, %q", st.WindowMS, st.Words)
		}
		time.Sleep(500 * time.Millisecond) // between two samples
		for range 20 {
			decide(s, 100, "login:x") // of which one a second is allowed, beside the burst of 60
			get[adminapi.Top](t, api, "/-/top")
			time.Sleep(time.Second)
		}
		st := get[adminapi.Status](t, api, "/-/status?since=0")
		login := st.Rules[0]
		if login.Count.Denied+login.Count.Allowed != 2000 || login.PerSecond.Denied != 94.29 || login.PerSecond.Allowed != 0.95 {
			t.Errorf("%+v: want 990 and 10 in 10.5 s", login)
		}
		if k := get[adminapi.Top](t, api, "/-/top").Keys[0]; k.DeniedPerSecond != 92.4 || k.AllowedPerSecond != 0.93 {
			t.Errorf("%+v: want 1386 and 14 in 15 s", k)
		}
		if want := "Of 95 requests per second, 94 are denied: 94 by login (over_rate)."; st.Words != want {
			t.Errorf("%q, want %q", st.Words, want)
		}
		if len(st.History) != 20 || st.History[19].Denied != 99 {
			t.Errorf("the history: %+v", st.History)
		}
		newest := get[adminapi.Status](t, api, "/-/status?since="+strconv.FormatInt(st.History[17].AtMS, 10)).History
		if len(newest) != 2 || newest[0] != st.History[18] {
			t.Errorf("since: %+v", newest)
		}
		time.Sleep(5 * time.Minute)
		st = get[adminapi.Status](t, api, "/-/status?since=0")
		if st.Words != "No requests." || st.Total.Count.Denied != login.Count.Denied || len(st.History) != 300 {
			t.Errorf("minutes later: %q, %+v, %d samples", st.Words, st.Total, len(st.History))
		}
		if top := get[adminapi.Top](t, api, "/-/top"); top.WindowMS != 0 || top.Keys[0].Denied != login.Count.Denied {
			t.Errorf("nobody asked for long: %+v", top)
		}
	})
}

// A rule with reset counters has no negative rates.
func TestCountedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		api := adminapi.New(adminapi.Config{Server: s})
		defer api.Close()
		decide(s, 1000, "login:x")
		time.Sleep(5500 * time.Millisecond)
		other := rules()
		other.Rules[0].Algorithm = config.Fixed
		if err := s.Reload(other); err != nil {
			t.Fatal(err)
		}
		decide(s, 71, "login:x")
		time.Sleep(700 * time.Millisecond)
		st := get[adminapi.Status](t, api, "/-/status?since=0")
		if f := st.Rules[0].PerSecond; f.Allowed != 9.68 || f.Denied != 1.77 {
			t.Errorf("%+v: want 60 and 11 in 6.2 s", f)
		}
		if h := st.History; h[5].Denied != 11 || h[4].Reloads != 1 || h[5].Reloads != 2 {
			t.Errorf("the history: %+v", h)
		}
	})
}

// If there are more rules than asked for, the answer has the rules that refuse most,
// in their order.
func TestSomeRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		api := adminapi.New(adminapi.Config{Server: s})
		defer api.Close()
		decide(s, 1, "other")
		decide(s, 200, "user:1")
		decide(s, 200, "login:1")
		time.Sleep(900 * time.Millisecond)
		st := get[adminapi.Status](t, api, "/-/status?rules=3")
		var names []string
		for _, r := range st.Rules {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, ", "); got != "login, api, everything else" || st.RulesInForce != 7 {
			t.Errorf("%s of %d", got, st.RulesInForce)
		}
	})
}

// A quantile of waits does not exceed the MaxWait of the rule, however wide the bucket
// of the histogram is.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := rules()
		short.Rules[2].MaxWait = 600 * time.Millisecond
		s, err := server.New(server.Config{Rules: short})
		if err != nil {
			t.Fatal(err)
		}
		api := adminapi.New(adminapi.Config{Server: s})
		defer api.Close()
		decide(s, 20, "search:x")
		for range 12 { // 20 a second
			go func() {
				if err := s.Wait(t.Context(), &decider.Request{Key: "search:x", N: 1}, new(decider.Verdict)); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(900 * time.Millisecond)
		search := get[adminapi.Status](t, api, "/-/status").Rules[2]
		if p50, p95 := search.WaitP50MS, search.WaitP95MS; p50 == nil || *p50 != 300 || p95 == nil || *p95 != 600 {
			t.Errorf("%+v: want 300 and 600 ms", search)
		}
	})
}

// What cannot be answered is told as an error.
func TestErrors(t *testing.T) {
	failing := errors.New("rules.yaml:1:1: this is no YAML")
	api := adminapi.New(adminapi.Config{
		Server: newServer(t), Local: true,
		Ready:  func() error { return errors.New("the rules were never loaded") },
		Reload: func() (string, error) { return "", failing },
	})
	defer api.Close()
	bare := adminapi.New(adminapi.Config{Server: newServer(t)})
	defer bare.Close()
	from := "Origin"
	for _, tt := range []struct {
		rule, request string
		header        []string
		status        int
		want          string
	}{
		{"no key", "GET /-/explain", nil, 400, "no key: ask for"},
		{"blanks are no key", "GET /-/explain?key=%20", nil, 400, "no key: ask for"},
		{"keys have no controls", "GET /-/explain?key=a%1b", nil, 400, "control characters"},
		{"keys are UTF-8", "GET /-/explain?key=%ff", nil, 400, "UTF-8"},
		{"keys are short", "GET /-/explain?key=" + strings.Repeat("x", 1025), nil, 400, "1025 bytes: must be <= 1024"},
		{"an order that is none", "GET /-/top?by=name", nil, 400, "must be denied, requests or waiting"},
		{"a number that is none", "GET /-/top?n=-1", nil, 400, "want a whole number >= 0"},
		{"a time that is none", "GET /-/status?since=yesterday", nil, 400, "want a whole number >= 0"},
		{"alive, though not ready", "GET /-/health", nil, 200, "ok"},
		{"not ready, and why", "GET /-/ready", nil, 503, "the rules were never loaded"},
		{"a bad file", "POST /-/reload", nil, 422, "rules.yaml:1:1"},
		{"the page's own reload", "POST /-/reload", []string{from, "http://127.0.0.1:8081"}, 422, "rules.yaml:1:1"},
		{"another site's reload", "POST /-/reload", []string{from, "http://evil.example"}, 403, "cross-origin"},
		{"another site's reload, as browsers tell", "POST /-/reload", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
		{"a reload is no link", "GET /-/reload", nil, 405, ""},
		{"no metrics", "GET /metrics", nil, 404, ""},
		{"no pprof", "GET /debug/pprof/", nil, 404, ""},
		{"no such asset", "GET /assets/page.css", nil, 404, ""},
		{"no directories", "GET /uplot/", nil, 404, ""},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		if w := ask(api, method, path, tt.header...); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %s: %d, %s: want %d and %q", tt.rule, tt.request, w.Code, w.Body, tt.status, tt.want)
		}
	}
	if w := ask(bare, "POST", "/-/reload"); w.Code != 404 || !strings.Contains(w.Body.String(), "nothing to reload") {
		t.Errorf("nothing to reload: %d, %s", w.Code, w.Body)
	}
	if w := ask(bare, "GET", "/-/ready"); w.Code != 200 {
		t.Errorf("ready: %d", w.Code)
	}
}

// Operators need a token that allows admin, scrapers one that allows metrics, and probes none.
func TestTokens(t *testing.T) {
	set, err := token.Parse("tokens.yaml", []byte(`tokens:
  - {name: ops, token: secret-of-the-operator, allow: [admin]}
  - {name: prometheus, token: secret-of-the-scraper, allow: [metrics]}
  - {name: shop, token: secret-of-the-shop, allow: [decide, lease, debug]}
  - {name: tenant, token: secret-of-the-tenant, allow: [metrics], keys: ["a:*"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var guard token.Guard
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	api := adminapi.New(adminapi.Config{
		Server: newServer(t), Pprof: true, Metrics: served, Reload: func() (string, error) { return "", nil }, Tokens: &guard,
	})
	defer api.Close()
	secrets := []string{"", "secret-of-the-operator", "secret-of-the-scraper", "secret-of-the-shop", "secret-of-the-tenant"}
	type statuses [5]int // by secret
	admin := statuses{401, 200, 403, 403, 403}
	if w := ask(api, "GET", "/metrics", "Authorization", "Bearer secret-of-the-operator"); w.Code != 401 {
		t.Errorf("before there are tokens: %d: want 401", w.Code)
	}
	guard.Use(set)
	for request, want := range map[string]statuses{
		"GET /": admin, "GET /page.js": admin, "POST /-/reload": admin, "GET /-/status": admin, "GET /-/top": admin, "GET /-/explain?key=a": admin,
		"GET /debug/pprof/": admin, "POST /-/reset?key=a": {401, 200, 403, 403, 403}, "POST /metrics": {401, 405, 403, 403, 403},
		"GET /metrics": {401, 200, 200, 403, 403}, "HEAD /metrics": {401, 200, 200, 403, 403}, "GET //metrics": {401, 307, 403, 403, 403},
		"GET //-/ready": {401, 307, 403, 403, 403}, "GET /-/ready/../status": {401, 307, 403, 403, 403},
		"GET /-/health": {200, 200, 200, 200, 200}, "GET /-/ready": {200, 200, 200, 200, 200},
	} {
		method, path, _ := strings.Cut(request, " ")
		for i, secret := range secrets {
			w := ask(api, method, path, "Authorization", "Bearer "+secret)
			if w.Code != want[i] {
				t.Errorf("%s with %q: %d, %s: want %d", request, secret, w.Code, w.Body, want[i])
			}
			if challenges := w.Header().Values("WWW-Authenticate"); w.Code == 401 && (len(challenges) != 2 || challenges[1] != `Basic realm="weir"`) {
				t.Errorf("%s: %q: want a challenge", request, challenges)
			}
		}
	}
}

// The page and its assets are all there, and load nothing from elsewhere.
func TestAssets(t *testing.T) {
	api := adminapi.New(adminapi.Config{Server: newServer(t)})
	defer api.Close()
	for path, kind := range map[string]string{
		"/": "text/html", "/operator/base.css": "text/css", "/serve.css": "text/css", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml",
		"/uplot/uPlot.iife.min.js": "text/javascript", "/uplot/uPlot.min.css": "text/css",
	} {
		w := ask(api, "GET", path)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(got, kind) {
			t.Errorf("%s: %d, %s: want %s", path, w.Code, got, kind)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
}

// Requests are concurrent with each other and with reloads.
func TestManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		api := adminapi.New(adminapi.Config{Server: s, Reload: func() (string, error) { return "", s.Reload(rules()) }})
		defer api.Close()
		for range 4 {
			for _, request := range []string{
				"POST /-/reload", "GET /-/status?since=0&rules=2", "GET /-/top", "GET /-/top?by=requests", "GET /-/top?by=waiting", "GET /-/explain?key=login:x",
			} {
				go func() {
					method, path, _ := strings.Cut(request, " ")
					for range 20 {
						decide(s, 20, "login:x")
						if w := ask(api, method, path); w.Code != 200 {
							t.Errorf("%s: %d, %s", request, w.Code, w.Body)
						}
						time.Sleep(300 * time.Millisecond)
					}
				}()
			}
		}
		time.Sleep(time.Minute)
	})
}

// Profiles that take long leave the listener to others.
func TestFewProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.New(server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		api := adminapi.New(adminapi.Config{Server: srv, Pprof: true})
		defer api.Close()
		ended := make(chan int, 4)
		for range 4 {
			go func() { ended <- ask(api, "GET", "/debug/pprof/goroutine?seconds=60").Code }()
		}
		synctest.Wait()
		if w := ask(api, "GET", "/debug/pprof/goroutine"); w.Code != 503 || !strings.Contains(w.Body.String(), "wait until one ends") {
			t.Errorf("a fifth: %d %s", w.Code, w.Body)
		}
		for range 4 {
			if code := <-ended; code != 200 {
				t.Errorf("%d", code)
			}
		}
		if w := ask(api, "GET", "/debug/pprof/goroutine"); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}
