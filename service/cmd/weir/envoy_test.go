//go:build system

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// envoyConfig is a proxy at a port, with an admin port, before the upstream at a port, with
// weir serve at a port, and a filter. A user is a descriptor.
const envoyConfig = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %[1]s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route:
                  cluster: upstream
                  rate_limits:
                  - actions: [{request_headers: {header_name: user, descriptor_key: user}}]
          http_filters:
%[5]s          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: upstream
    load_assignment: {cluster_name: upstream, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[3]s}}}}]}]}
  - name: limits
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
%[6]s    load_assignment: {cluster_name: limits, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[4]s}}}}]}]}
`

// envoyTLS lets Envoy speak TLS to weir serve.
const envoyTLS = `    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context: {alpn_protocols: [h2], validation_context: {trusted_ca: {filename: %q}}}
`

// rlsFilter asks the rate-limit service.
const rlsFilter = `          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              timeout: 2s
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: limits}}}
`

// rlqsFilter decides by assignments of the rate limit quota service, and without one refuses
// all.
const rlqsFilter = `          - name: envoy.filters.http.rate_limit_quota
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
              domain: edge
              rlqs_server: {envoy_grpc: {cluster_name: limits}}
              bucket_matchers:
                matcher_list:
                  matchers:
                  - predicate:
                      single_predicate:
                        input: {name: user, typed_config: {"@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: user}}
                        value_match: {prefix: a}
                    on_match:
                      action:
                        name: bucket
                        typed_config:
                          "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
                          bucket_id_builder:
                            bucket_id_builder:
                              user: {custom_value: {name: user, typed_config: {"@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: user}}}
                          reporting_interval: 1s
                          no_assignment_behavior: {fallback_rate_limit: {blanket_rule: DENY_ALL}}
                          expired_assignment_behavior: {fallback_rate_limit: {blanket_rule: DENY_ALL}}
`

// An envoy is a real Envoy.
type envoy struct {
	t          *testing.T
	url, admin string
}

func startEnvoy(t *testing.T, filter, upstream, limits string) *envoy {
	t.Helper()
	return startEnvoyOver(t, "", filter, upstream, limits)
}

// startEnvoyOver starts an Envoy that speaks to weir serve over a transport socket, or cleartext.
func startEnvoyOver(t *testing.T, socket, filter, upstream, limits string) *envoy {
	t.Helper()
	path := envoyPath(t)
	proxy, admin, dir := freePort(t), freePort(t), t.TempDir()
	file := filepath.Join(dir, "envoy.yaml")
	fatal(t, os.WriteFile(file, fmt.Appendf(nil, envoyConfig, proxy, admin, upstream, limits, filter, socket), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	fatal(t, err)
	cmd := exec.Command(path, "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning")
	cmd.Stdout, cmd.Stderr = log, log
	fatal(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if log.Close(); t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("envoy: %s", text[max(len(text)-4000, 0):])
		}
	})
	e := &envoy{t, "http://127.0.0.1:" + proxy, "http://127.0.0.1:" + admin}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if a, err := tryAsk(http.DefaultClient, "GET", e.admin+"/ready"); err == nil && a.status == 200 {
			return e
		}
		if time.Now().After(deadline) {
			t.Fatal("Envoy is not ready")
		}
	}
}

// envoyPath returns the path of Envoy in the environment of Python that make need installs.
func envoyPath(t *testing.T) string {
	t.Helper()
	path, err := exec.Command("go", "env", "GOPATH").Output()
	fatal(t, err)
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(path)), "clients", "envoy", "lib", "python3*", "site-packages", "envoy", "_bin", "envoy"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no Envoy found: make need installs it: %q, %v", found, err)
	}
	return found[0]
}

func freePort(t *testing.T) string { return redistest.FreePort(t) }

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func (e *envoy) ask(user string) answered {
	e.t.Helper()
	return ask(e.t, http.DefaultClient, "GET", e.url, "user", user)
}

// stat returns a counter of the filter.
func (e *envoy) stat(name string) int {
	e.t.Helper()
	text := ask(e.t, http.DefaultClient, "GET", e.admin+"/stats?filter=ratelimit").body
	found := regexp.MustCompile(`(?m)^cluster\.upstream\.ratelimit\.` + name + `: (\d+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

const envoyRules = `
domain: edge
descriptors:
- {key: user, value: loaded, rate_limit: {unit: day, requests_per_unit: 4000000000}}
- {key: user, value: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: user, rate_limit: {unit: day, requests_per_unit: 2}}
`

// Behind a real Envoy, a limit is obeyed and told, shadow mode refuses nothing, a reload under
// load refuses nothing else, and without the service every request passes.
func TestEnvoy(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "upstream") }))
	defer upstream.Close()
	_, file := writeRuntime(t, envoyRules)
	s := serving(t, "--rules", file, "--grpc-listen", "127.0.0.1:0", "--rls-headers", "--rls-algorithm", "fixed_window")
	e := startEnvoy(t, rlsFilter, portOf(strings.TrimPrefix(upstream.URL, "http://")), portOf(s.grpcAddress()))

	for i, want := range []int{200, 200, 429, 429} {
		a := e.ask("a")
		if a.status != want || (a.body == "upstream") != (want == 200) {
			t.Fatalf("request %d: %d %q: want %d", i, a.status, a.body, want)
		}
		left := strconv.Itoa(max(1-i, 0))
		for name, want := range map[string]string{"X-Ratelimit-Limit": "2, 2;w=86400", "X-Ratelimit-Remaining": left, "Ratelimit-Limit": "2", "Ratelimit-Remaining": left} {
			if got := a.header.Get(name); got != want {
				t.Errorf("request %d: %s: %q: want %q", i, name, got, want)
			}
		}
		if limited := a.header.Get("X-Envoy-Ratelimited"); (limited == "true") != (want == 429) {
			t.Errorf("request %d: x-envoy-ratelimited: %q", i, limited)
		}
	}
	for range 3 {
		if a := e.ask("trial"); a.status != 200 {
			t.Errorf("shadow mode: %d", a.status)
		}
	}
	if ok, over := e.stat("ok"), e.stat("over_limit"); ok != 5 || over != 2 {
		t.Errorf("Envoy counts %d ok, %d over limit: want 5, 2", ok, over)
	}

	var passed, failed atomic.Int64
	var load sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if a, err := tryAsk(http.DefaultClient, "GET", e.url, "user", "loaded"); err == nil && a.status == 200 {
					passed.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	for i := range 3 {
		before := passed.Load()
		for passed.Load() < before+50 {
			time.Sleep(time.Millisecond)
		}
		fatal(t, os.WriteFile(file, []byte(strings.Replace(envoyRules, "requests_per_unit: 2}", fmt.Sprintf("requests_per_unit: %d}", 3+i), 1)), 0o600))
		s.until(fmt.Sprintf("→ %d/d", 3+i))
	}
	close(done)
	load.Wait()
	if failed.Load() > 0 || e.stat("error") > 0 {
		t.Errorf("%d of %d requests failed during reloads, %d errors of the service", failed.Load(), passed.Load(), e.stat("error"))
	}
	for i, want := range []int{200, 200, 200, 200, 200, 429} {
		if a := e.ask("b"); a.status != want {
			t.Errorf("after the reloads, request %d: %d: want %d", i, a.status, want)
		}
	}

	s.end()
	for range 3 {
		if a := e.ask("a"); a.status != 200 {
			t.Errorf("without the service: %d", a.status)
		}
	}
	if e.stat("error") == 0 {
		t.Error("Envoy counts no error of the service")
	}
}

// Two real Envoys decide by assignments. The first one gets the whole rate with its burst. The
// second one gets nothing, or half of both once the first has heard of it.
func TestEnvoyQuotas(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	const burst, ttl = 20, 11 * time.Second // Envoy reports every 5 s
	fatal(t, os.WriteFile(rules, fmt.Appendf(nil, "rules: [{glob: 'edge|user=*', rate: 36/h, burst: %d}]", burst), 0o600))
	s := serving(t, "--rules", rules, "--grpc-listen", "127.0.0.1:0", "--rlqs-ttl", ttl.String())
	time.Sleep(ttl) // then it knows what proxies have
	start := func() *envoy {
		return startEnvoy(t, rlqsFilter, portOf(strings.TrimPrefix(upstream.URL, "http://")), portOf(s.grpcAddress()))
	}
	pass := func(e *envoy) (passed int) {
		for refused := 0; refused < 2*burst; {
			if e.ask("a").status == 200 {
				passed++
			} else {
				refused++
			}
		}
		return passed
	}
	first, second := start(), start()
	if first.ask("a").status != 429 {
		t.Error("a request passes before there is an assignment")
	}
	passed := 0
	for deadline := time.Now().Add(time.Minute); passed == 0 && time.Now().Before(deadline); {
		passed = pass(first)
	}
	if passed < burst || passed > burst+1 {
		t.Errorf("%d requests pass the first Envoy: want %d", passed, burst)
	}
	if passed = pass(second); passed > burst/2+1 {
		t.Errorf("%d requests pass the second Envoy", passed)
	}
}
