package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxy/proxypage"
)

// proxyReading is a reading of a proxy with every kind of content, and some origins.
func proxyReading(n int) reading {
	const now = 1_700_000_000_000
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	class := func(name, mode string, limit *limits.Report, flow proxypage.Flow, routes ...string) proxypage.Class {
		return proxypage.Class{ClassReport: proxy.ClassReport{Name: name, Mode: mode, Own: limit != nil, Limit: limit, Routes: routes}, PerSecond: flow}
	}
	st := &proxypage.State{
		NowMS: now, StartedMS: now - 3*3600_000, SinceMS: now - 12_000, WindowMS: 5000, Level: "shedding", Ready: true,
		Words: "Shedding: the limit of class reports is used up; 64 of 340 requests per second are rejected; rules deny 8 per second (logins).",
		Law:   proxypage.Law{Inflight: 7.41, Throughput: 212, MeanMS: new(34.95), P50MS: new(31.2), P95MS: new(80.4), P99MS: new(1234.5)},
		Total: proxypage.Total{Limit: 13, Limits: 2, Mode: "auto", Inflight: 9, Waiting: 4, LongLived: 3, Abandoned: 1},
		Flow: proxypage.Flow{
			Requests: 340, Denied: 8.2, Rejected: 64, Reasons: map[string]float64{"overdue": 14, "queue_full": 50}, WouldReject: 2.5, Wasted: new(0.04),
		},
		Waits: []string{"≤ 1 ms", "≤ 50 ms", "≤ 100 ms"},
		File:  &proxy.FileReport{Path: "/etc/weir/proxy.yaml", Hash: "3f2a90c1d5e7", Loaded: at(now - 125_000)},
		Classes: []proxypage.Class{
			class("search", "shadow", nil, proxypage.Flow{Requests: 40, WouldReject: 2.5}, "/search"),
			class("reports", "enforce", &limits.Report{Limit: proxy.FixedLimit(3), LimitNow: 3, Exchanges: 3, Waiting: 4, Queue: 4},
				proxypage.Flow{Requests: 100, Rejected: 64, Reasons: map[string]float64{"overdue": 14, "queue_full": 50}, Wasted: new(0.04)}, "/reports/", "GET /export/{id}"),
			class("default", "enforce", &limits.Report{LimitNow: 10, Exchanges: 6}, proxypage.Flow{Requests: 200, Denied: 8.2, Wasted: new(0.0)}),
		},
		AllClasses: 3, AllOrigins: n, AllRules: 120,
		Rules: []proxypage.Rule{
			{RuleReport: proxy.RuleReport{Name: "clients", By: []string{"header X-Api-Key", "address"}, Rate: "100/s", Burst: 200, Mode: "enforce"}, AllowedRate: 330},
			{RuleReport: proxy.RuleReport{Name: "logins", By: []string{"address"}, Rate: "5/m", Burst: 5, Mode: "enforce", Routes: []string{"POST /login"}}, AllowedRate: 0.1, DeniedRate: 8.2},
			{RuleReport: proxy.RuleReport{Name: "uploads", By: []string{"address"}, Limit: 2, Mode: "shadow"}, AllowedRate: 3, WouldDenyRate: 1.5},
		},
		Pressure: &plan.PressureReport{Now: 0.12, Max: 0.4},
	}
	for i := range n {
		o := proxypage.Origin{Report: origins.Report{URL: fmt.Sprintf("http://10.0.0.%d:8000", i), State: "in", Limit: 4, Inflight: i % 3}, PerSecond: map[string]float64{"served": 7}}
		switch i {
		case 4:
			o.State, o.Cause, o.UntilMS, o.PerSecond = "ejected", "connections", now+1900, map[string]float64{"connection_refused": 0.5}
		case 7:
			o.Retried, o.PerSecond = 11, map[string]float64{"served": 5, "unavailable": 2, "timeout": 0.2}
		}
		st.Origins = append(st.Origins, o)
	}
	return reading{url: "http://127.0.0.1:7001", proxy: st}
}

// Each frame about a proxy is as in testdata; -update rewrites it.
func TestProxyFrames(t *testing.T) {
	heard := time.UnixMilli(1_700_000_000_000)
	bad := proxyReading(1)
	bad.proxy.Level, bad.proxy.Words, bad.proxy.Shadow = "failing", "Failing: the origin is down, or starts: it refuses all connections.", true
	bad.proxy.File.Error, bad.proxy.File.Failed = broken, new(heard.Add(-time.Minute))
	started := reading{url: "http://127.0.0.1:7001", proxy: &proxypage.State{
		NowMS: heard.UnixMilli(), StartedMS: heard.UnixMilli(), SinceMS: heard.UnixMilli(), Level: "healthy", Words: "Healthy: the origin shows no sign of overload.",
		Total: proxypage.Total{Limit: 10, Limits: 1, Mode: "10"},
	}}
	idle := started
	idle.proxy = new(*started.proxy)
	idle.proxy.WindowMS, idle.proxy.Law.Inflight = 5000, 0.5
	for name, v := range map[string]view{
		"proxy-wide":    {reading: proxyReading(2), width: 140, height: 30},
		"proxy-screen":  {reading: proxyReading(30), width: 80, height: 24},
		"proxy-tiny":    {reading: proxyReading(30), width: 20, height: 8},
		"proxy-low":     {reading: proxyReading(30), width: 100, height: 15},
		"proxy-once":    {reading: proxyReading(12)},
		"proxy-failing": {reading: bad, width: 80, height: 28},
		"proxy-started": {reading: started, width: 80, height: 8},
		"proxy-idle":    {reading: idle, width: 80, height: 8},
		"proxy-help":    {reading: proxyReading(1), width: 80, height: 24, mode: help},
		"proxy-away":    {reading: proxyReading(1), width: 80, height: 26, err: errors.New("connection refused"), heard: heard, now: heard.Add(12 * time.Second)},
	} {
		v.live = v.width > 0
		golden(t, name, &v)
	}
}

// No text of a proxy sends control characters to the terminal.
func TestProxyHostile(t *testing.T) {
	r := proxyReading(8)
	st := r.proxy
	st.Words, st.Level, st.Total.Mode, st.Total.Limits, st.File.Path, st.File.Hash, st.File.Error = evil, evil, evil, 1, evil, evil, evil
	st.Waits = []string{evil, evil, evil}
	st.Flow.Reasons = map[string]float64{evil: 1}
	st.Classes[0].Name, st.Classes[0].Routes = evil, []string{evil}
	st.Origins[0].URL, st.Origins[0].State, st.Origins[0].Cause, st.Origins[0].PerSecond = evil, evil, evil, map[string]float64{evil: 1}
	st.Rules[0].Name, st.Rules[0].Rate, st.Rules[0].By, st.Rules[0].Routes = evil, evil, []string{evil}, []string{evil}
	for _, v := range []view{{reading: r, width: 80, height: 60}, {reading: r}} {
		harmless(t, &v)
	}
}

// Keys that are about keys of weir serve do nothing at a proxy.
func TestProxyKeys(t *testing.T) {
	m := newModel(t.Context(), client{urls: []string{"http://127.0.0.1:7001"}}, time.Second, "denied")
	next, _ := m.Update(readMsg{reading: proxyReading(1), by: "denied", at: time.Now()})
	m = next.(model)
	for _, key := range []string{"d", "r", "e", "/"} {
		if m, cmd := press(m, key); m.mode != keys || m.by != "denied" || cmd != nil {
			t.Errorf("%s: mode %d, by %s", key, m.mode, m.by)
		}
	}
	if m, _ := press(m, "?"); !strings.Contains(m.View().Content, "Little's law") {
		t.Errorf("help: %q", m.View().Content)
	}
	if m, _ := press(m, "p"); !strings.Contains(m.View().Content, "paused") {
		t.Errorf("paused: %q", m.View().Content)
	}
}

// Answers that operators do not get say what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	const which = "is it the address of --admin? By default, that is http://127.0.0.1:8081 of weir serve, and http://127.0.0.1:7001 of weir proxy"
	for _, tt := range []struct {
		status            int
		contentType, body string
		want              string
	}{
		{404, "text/html", "<p>nothing", "it answers 404 Not Found: " + which},
		{503, "application/problem+json", `{"type":"about:blank"}`, "it answers 503 Service Unavailable: " + which}, // that of clients
		{200, "text/html", "<p>hello", "not an answer of weir: " + which},
		{200, "application/json", "{}", "not an answer of weir: " + which},
		{401, "application/json", `{"error":"the token is not known"}`, "it answers 401 Unauthorized: the token is not known; give a token that allows admin, as --token or $WEIR_TOKEN"},
		{403, "application/json", `{"error":"not for scraper"}`, "it answers 403 Forbidden: not for scraper"},
		{400, "text/plain", "Client sent an HTTP request to an HTTPS server.\n", "it answers 400 Bad Request: Client sent an HTTP request to an HTTPS server."},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", tt.contentType)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		err := Once(t.Context(), Config{URLs: []string{srv.URL}}, io.Discard)
		srv.Close()
		if want := "no answer from " + srv.URL + ": " + tt.want; err == nil || err.Error() != want {
			t.Errorf("%d %s:\n got %v\nwant %s", tt.status, tt.body, err, want)
		}
		err = Once(t.Context(), Config{URLs: []string{srv.URL, srv.URL}}, io.Discard)
		if want := "no answer from " + srv.URL + " or " + srv.URL + ": nothing listens there: start weir serve or weir proxy, or give the address of its --admin"; err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	tls.StartTLS()
	defer tls.Close()
	if err := Once(t.Context(), Config{URLs: []string{tls.URL}}, io.Discard); err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE can name") {
		t.Errorf("%v", err)
	}
}

// Once shows the state of a proxy, as text and as JSON, at the first address at which something listens.
func TestProxyOnce(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	p, err := proxy.New(proxy.Config{Origins: []string{origin.URL}, Limit: proxy.FixedLimit(8), Logger: slog.New(slog.DiscardHandler)})
	testrig.Must(t, err)
	page := proxypage.New(p, false)
	defer page.Close()
	srv := httptest.NewServer(page)
	defer srv.Close()
	nowhere := httptest.NewServer(nil)
	nowhere.Close()
	for range 3 {
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	cfg := Config{URLs: []string{nowhere.URL, srv.URL}}
	var text bytes.Buffer
	testrig.Must(t, Once(t.Context(), cfg, &text))
	for _, want := range []string{"weir proxy  " + srv.URL + "\nHealthy: ", "\nlimit 8 (fixed)  0 in flight  0 waiting\n", "\ndefault  8 fixed ", origin.URL + "  in "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %q in\n%s", want, &text)
		}
	}
	var out bytes.Buffer
	cfg.JSON = true
	testrig.Must(t, Once(t.Context(), cfg, &out))
	var got struct {
		URL  string
		Live proxypage.State
	}
	testrig.Must(t, json.Unmarshal(out.Bytes(), &got))
	if got.URL != srv.URL || got.Live.Total.Limit != 8 || len(got.Live.Classes) != 1 || got.Live.Classes[0].Limit.Limit != proxy.FixedLimit(8) || len(got.Live.History) > 0 {
		t.Errorf("%s", &out)
	}
}
