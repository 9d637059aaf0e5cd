//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/cli/clitest"
	"github.com/weir-go/weir/service/lab/internal/convert"
)

// service answers after 20 ms, with four workers; every tenth request of /fail fails.
func service(t *testing.T) *httptest.Server {
	workers := make(chan struct{}, 4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		time.Sleep(20 * time.Millisecond)
		if strings.HasPrefix(r.URL.Path, "/fail") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// started runs a program until the test ends, and waits until it listens.
func started(t *testing.T, port string, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = os.Stderr
	clitest.Fatal(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	redistest.Until(t, "listening", func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// overload sends requests with more and more clients, and returns how many.
func overload(t *testing.T, to string) (n int) {
	for _, clients := range []int{1, 2, 4, 8, 12} {
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for i := range 15 {
					path := fmt.Sprintf("/orders/%d", 1_000_000+i)
					if (c+i)%10 == 0 {
						path = "/fail"
					}
					resp, err := http.Get(to + path)
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
				}
			})
		}
		all.Wait()
		n += 15 * clients
	}
	return n
}

// converted checks the recording of a log of n requests to the service, and that weirlab advise reads it.
func converted(t *testing.T, path string, n int, args ...string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "a.rec")
	var stderr string
	redistest.Until(t, "all lines", func() error { // the log may be behind
		var code int
		code, _, stderr = weirlab(t, append([]string{"convert", path, "-o", out}, args...)...)
		if code != 0 || !strings.Contains(stderr, fmt.Sprintf(": %d requests (", n)) {
			return fmt.Errorf("%d, %s: want %d requests", code, stderr, n)
		}
		return nil
	})
	if strings.Contains(stderr, "are no requests") || !strings.Contains(stderr, "missing: ") {
		t.Error(stderr)
	}
	f, err := os.Open(out)
	clitest.Fatal(t, err)
	defer f.Close()
	log, err := convert.Read(f, convert.Source{})
	clitest.Fatal(t, err)
	classes, most, failed := map[string]int{}, 0, 0
	for _, r := range log.Requests {
		classes[r.Class]++
		most = max(most, r.Inflight)
		if r.Outcome != recording.Ended(1) {
			failed++
		}
		if r.Response() < 19*time.Millisecond || r.Response() > time.Minute || time.Since(time.Unix(0, int64(r.End))) > time.Hour {
			t.Errorf("%+v", r)
		}
	}
	if len(classes) != 2 || classes["GET /fail"] != failed || failed == 0 || classes["GET /orders/*"] == 0 || most < 8 || most > 13 {
		t.Errorf("%v, %d failed, at most %d in flight", classes, failed, most)
	}
	code, stdout, stderr := weirlab(t, "advise", "--json", out)
	var a struct{ Requests int }
	if code != 0 || json.Unmarshal([]byte(stdout), &a) != nil || a.Requests != n {
		t.Errorf("advise: %d, %s, %s", code, stdout, stderr)
	}
}

// The log of a real nginx, in the format that docs/recording.md gives.
func TestConvertNginx(t *testing.T) {
	dir, port := t.TempDir(), redistest.FreePort(t)
	clitest.Fatal(t, os.Chmod(dir, 0o755))
	text := fmt.Sprintf(`events {}
http {
  log_format weir '%s';
  access_log %s/access.log weir;
  upstream service { server %s; }
  server { listen 127.0.0.1:%s; location / { proxy_pass http://service; } }
}
`, convert.DefaultNginx, dir, strings.TrimPrefix(service(t).URL, "http://"), port)
	clitest.Fatal(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(text), 0o644))
	started(t, port, exec.Command("nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr", "-g", "daemon off; pid nginx.pid;"))
	converted(t, filepath.Join(dir, "access.log"), overload(t, "http://127.0.0.1:"+port))
}

// The log of a real Envoy, in its default format, and with microseconds.
func TestConvertEnvoy(t *testing.T) {
	out, err := exec.Command("go", "env", "GOPATH").Output()
	clitest.Fatal(t, err)
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "clients", "envoy", "lib", "python3*", "site-packages", "envoy", "_bin", "envoy"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no Envoy found: make need installs it: %q, %v", found, err)
	}
	const precise = `%START_TIME(%s.%6f)% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% %RESPONSE_CODE% %RESPONSE_FLAGS% %REQ(:METHOD)% %REQ(:PATH)%`
	dir, port := t.TempDir(), redistest.FreePort(t)
	to, err := url.Parse(service(t).URL)
	clitest.Fatal(t, err)
	logger := func(name, more string) string {
		return fmt.Sprintf(`{name: %[1]s, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: %[2]s/%[1]s.log%[3]s}}`, name, dir, more)
	}
	format, err := json.Marshal(precise + "\n")
	clitest.Fatal(t, err)
	text := fmt.Sprintf(`static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          access_log: [%s, %s]
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: service}}]}]}
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
  clusters:
  - name: service
    connect_timeout: 5s
    load_assignment: {cluster_name: service, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]}
`, port, logger("default", ""), logger("precise", fmt.Sprintf(", log_format: {text_format_source: {inline_string: %s}}", format)), to.Port())
	file := filepath.Join(dir, "envoy.yaml")
	clitest.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	started(t, port, exec.Command(found[0], "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning", "--file-flush-interval-msec", "200"))
	n := overload(t, "http://127.0.0.1:"+port)
	converted(t, filepath.Join(dir, "default.log"), n)
	converted(t, filepath.Join(dir, "precise.log"), n, "--log-format", precise)
}

// What a real k6 writes.
func TestConvertK6(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf(`import http from 'k6/http';
export const options = {stages: [{duration: '3s', target: 10}], gracefulStop: '5s'};
export default function () { http.get('%s/' + (__ITER %% 10 == 0 ? 'fail' : 'orders/' + (1000000 + __ITER))); }
`, service(t).URL)
	clitest.Fatal(t, os.WriteFile(filepath.Join(dir, "a.js"), []byte(script), 0o600))
	out := filepath.Join(dir, "out.json")
	cmd := exec.Command("k6", "run", "--quiet", "--no-color", "--address", "", "--out", "json="+out, filepath.Join(dir, "a.js"))
	cmd.Env = append(os.Environ(), "HOME="+dir, "K6_NO_USAGE_REPORT=true", "K6_AUTO_EXTENSION_RESOLUTION=false")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	data, err := os.ReadFile(out)
	clitest.Fatal(t, err)
	converted(t, out, strings.Count(string(data), `"type":"Point","metric":"http_reqs"`)+strings.Count(string(data), `"metric":"http_reqs","type":"Point"`))
}
