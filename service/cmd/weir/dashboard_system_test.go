//go:build system

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	library "github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/throttle"
)

// A scraper is a Prometheus that scrapes listeners of operators, and has the alerts.
type scraper struct{ url string }

// startPrometheus starts a Prometheus that scrapes the addresses of each job.
func startPrometheus(t *testing.T, secret string, jobs map[string][]string) scraper {
	t.Helper()
	alerts, err := filepath.Abs("../../../deploy/prometheus/alerts.yaml")
	fatal(t, err)
	cfg := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n", alerts)
	for job, targets := range jobs {
		cfg += fmt.Sprintf("- job_name: %s\n  authorization: {credentials: %s}\n  static_configs: [{targets: [%s]}]\n", job, secret, strings.ReplaceAll(strings.Join(targets, ", "), "http://", ""))
	}
	address := "127.0.0.1:" + redistest.FreePort(t)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	fatal(t, err)
	cmd := exec.Command("prometheus", "--config.file="+file(t, "prometheus.yml", cfg), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address,
		"--enable-feature=exemplar-storage")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make need installs it)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s, %v", text, err)
		}
	})
	return scraper{"http://" + address}
}

// get decodes the data of an answer of the API.
func (p scraper) get(path string, data any) error {
	resp, err := http.Get(p.url + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

// numbers returns how many series of a query have a number.
func (p scraper) numbers(query string) (n int, err error) {
	var data struct{ Result []struct{ Value [2]any } }
	err = p.get("/api/v1/query?query="+url.QueryEscape(query), &data)
	for _, series := range data.Result {
		if series.Value[1] != "NaN" {
			n++
		}
	}
	return n, err
}

// repeat calls each function again and again, until the test ends.
func repeat(t *testing.T, calls ...func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	for _, call := range calls {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					call()
				}
			}
		})
	}
	t.Cleanup(func() { close(stop); running.Wait() })
}

// request returns a function that sends a request.
func request(method, url string, fields ...string) func() {
	return func() { _, _ = tryAsk(http.DefaultClient, method, url, fields...) }
}

const dashboardRules = `rules:
- {name: tried, key: tried, rate: 10/s, candidate: {rate: 20/s}}
- {name: late, key: late, rate: 20/s, burst: 1, max_wait: 1s}
- {name: jobs, key: job, concurrency: {limit: 1, max_wait: 1s}}
- {name: edge, entries: {user: "*"}, rate: 10/s}
- {name: keys, glob: "key*", rate: 10/s}
`

// Each query of the dashboards has a number in a real Prometheus, which scrapes every mode of weir under load, and a program
// that uses the library. An alert begins to count when an origin fails.
func TestDashboards(t *testing.T) {
	rules := file(t, "rules.yaml", dashboardRules)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/breaks" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Cache-Control", "max-age=1")
		fmt.Fprintln(w, r.URL.Path)
	}))
	defer origin.Close()

	proxy := proxying(t, "--origin", origin.URL, "--origin", nowhere, "--admin-tokens", file(t, "tokens.yaml", operatorTokens), "--rules", file(t, "proxy.yaml", `
rules: [{name: clients, by: address, rate: 1000/s}]
classes: [{name: cached, routes: /cached, cache: {ttl: 1s}}]
`))
	repeat(t, request("GET", proxy.public), request("GET", proxy.public+"/cached"), request("POST", proxy.public+"/cached"), request("POST", proxy.public+"/breaks"))

	alone := serving(t, "--rules", rules, "--resp-listen", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "state"), "--state-interval", "1s", "--max-connections", "100")
	takeLease := func() {
		var l heldLease
		if a, err := tryAsk(http.DefaultClient, "POST", alone.public+"/lease/job?canWait=true"); err == nil && json.Unmarshal([]byte(a.body), &l) == nil {
			_, _ = tryAsk(http.DefaultClient, "DELETE", alone.public+"/lease/job/"+l.ID)
		}
	}
	nc, err := net.Dial("tcp", alone.resp())
	redis := respOver(t, nc, err)
	repeat(t, request("POST", alone.public+"/rate/tried"), request("POST", alone.public+"/rate/late?canWait=true"), request("POST", alone.public+"/rate/late?canWait=true"),
		takeLease, takeLease, func() { redis.send("PING"); redis.wants("+PONG") })

	store := serving(t, "--rules", rules, "--store", "redis://"+redistest.Start(t, "redis-server").Addr, "--tokens", file(t, "tokens.yaml", `tokens: [{name: shop, token: secret-of-the-shop}]`))
	repeat(t, request("POST", store.public+"/rate/tried", "Authorization", "Bearer secret-of-the-shop"))

	edge := serving(t, "--rules", rules, "--grpc-listen", "127.0.0.1:0", "--rlqs-ttl", "1s")
	for _, filter := range []string{rlsFilter, rlqsFilter} {
		envoy := startEnvoy(t, filter, portOf(strings.TrimPrefix(origin.URL, "http://")), portOf(edge.grpcAddress()))
		repeat(t, request("GET", envoy.url, "user", "a"))
	}

	var members []*served
	urls := []string{"http://127.0.0.1:" + redistest.FreePort(t), "http://127.0.0.1:" + redistest.FreePort(t)}
	for _, url := range urls {
		members = append(members, serving(t, "--rules", rules, "--listen", strings.TrimPrefix(url, "http://"), "--peers", strings.Join(urls, ",")))
	}
	leaf := serving(t, "--rules", rules, "--upstream", urls[0])
	for i := range 8 {
		repeat(t, request("POST", fmt.Sprintf("%s/rate/key%d", urls[i%2], i)))
	}
	repeat(t, request("POST", leaf.public+"/rate/tried"))

	app := useLibrary(t)
	p := startPrometheus(t, "secret-of-the-operator", map[string][]string{
		"weir-proxy": {proxy.admin}, "weir": {alone.admin, store.admin, edge.admin, members[0].admin, members[1].admin, leaf.admin}, "app": {app}})
	variable := regexp.MustCompile(`\$\w+`)
	for _, name := range dashboards {
		queries, _ := dashboard(t, name)
		for _, query := range queries {
			query = variable.ReplaceAllString(strings.ReplaceAll(query, "[1m]", "[30s]"), ".*")
			redistest.Until(t, name+": "+query, func() error {
				if n, err := p.numbers(query); err != nil || n > 0 {
					return err
				}
				return errors.New("no number")
			})
		}
	}
	redistest.Until(t, "the alert about the origin", func() error {
		var data struct {
			Alerts []struct{ Labels map[string]string }
		}
		if err := p.get("/api/v1/alerts", &data); err != nil {
			return err
		}
		var names []string
		for _, a := range data.Alerts {
			names = append(names, a.Labels["alertname"]+" "+a.Labels["origin"])
		}
		if !slices.Contains(names, "WeirProxyOriginOut "+nowhere) {
			return fmt.Errorf("there are %q", names)
		}
		return nil
	})
	proxy.until("the origin fails")
}

// Prometheus finds the trace of a request in the exemplars of a histogram.
func TestPrometheusExemplars(t *testing.T) {
	to := receiveOTLP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer origin.Close()
	s := proxying(t, "--origin", origin.URL)
	traced(t, "GET", s.public, "01")
	p := startPrometheus(t, "none", map[string][]string{"weir-proxy": {s.admin}})
	redistest.Until(t, "an exemplar", func() error {
		var found []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		query := "/api/v1/query_exemplars?query=weir_proxy_origin_duration_seconds_bucket&start=0&end=" + fmt.Sprint(time.Now().Add(time.Hour).Unix())
		if err := p.get(query, &found); err != nil {
			return err
		}
		if len(found) != 1 || len(found[0].Exemplars) != 1 || found[0].Exemplars[0].Labels["trace_id"] != traceID {
			return fmt.Errorf("there are %v", found)
		}
		return nil
	})
	s.end()
}

// useLibrary returns the address of a program that uses each part of the library, until the test ends.
func useLibrary(t *testing.T) (address string) {
	t.Helper()
	var asked atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%10 == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(backend.Close)
	keys, err := keyed.New[string](gcra.PerSecond(10, 10), keyed.Config{})
	fatal(t, err)
	limited, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto, Rules: []httplimit.Rule{httplimit.PerKey("users", keys, httplimit.Header("user"))}})
	fatal(t, err)
	one, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1)})
	fatal(t, err)
	shadow, err := httplimit.New(httplimit.Config{Limiter: one, Shadow: true})
	fatal(t, err)
	responses, err := httpcache.New(httpcache.Config{DefaultTTL: time.Second})
	fatal(t, err)
	t.Cleanup(responses.Close)
	values, err := cache.New(cache.Config[string, int]{})
	fatal(t, err)
	t.Cleanup(values.Close)
	client, err := httpclient.New(httpclient.Config{})
	fatal(t, err)
	throttled, err := throttle.New(throttle.Config{})
	fatal(t, err)
	guard, err := pressure.New(pressure.Config{Max: 0.9, Path: file(t, "pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")})
	fatal(t, err)

	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.NewHTTP("api", limited), metric.NewHTTP("shadow", shadow), metric.NewKeyed("users", keys), metric.NewHTTPCache("responses", responses),
		metric.NewCache("values", values), metric.NewTransport("backend", client), metric.NewThrottle("backend", throttled), metric.NewPressure("processor", guard),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Millisecond)
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/shadow", shadow.Handler(work))
	mux.Handle("/", limited.Handler(responses.Handler(work)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	repeat(t, request("GET", server.URL, "user", "a"), request("POST", server.URL, "user", "b"), request("POST", server.URL+"/fails", "user", "c"),
		request("POST", server.URL+"/shadow"), request("POST", server.URL+"/shadow"), request("POST", server.URL+"/shadow"),
		func() {
			_, _ = values.Get(t.Context(), "a", func(context.Context, string) (int, error) { return 1, nil })
			if p, err := throttled.Acquire(t.Context(), 1); err == nil {
				p.Release(library.Success)
			}
			if resp, err := (&http.Client{Transport: client}).Get(backend.URL); err == nil {
				resp.Body.Close()
			}
		})
	return server.URL
}
