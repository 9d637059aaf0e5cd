package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/cli/clitest"
	"github.com/weir-go/weir/service/internal/proxy"
)

// report returns the report of a proxy.
func (s *served) report() (r proxy.Report) {
	s.t.Helper()
	a := ask(s.t, http.DefaultClient, "GET", s.admin+"/-/status")
	fatal(s.t, json.Unmarshal([]byte(a.body), &r))
	return r
}

// limits are rules with one class, of a limit that a test changes.
func limits(n string) string { return "classes: [{name: x, routes: /x, limit: " + n + "}]\n" }

// limit returns the limit of the class.
func (s *served) limit() string { return s.report().Classes[0].Limit.Limit.String() }

// A proxy loads its rules again when an operator or a signal asks for it, and when the file
// is written, renamed by an editor, or changed by Kubernetes. A mistake keeps the last good
// rules.
func TestProxyReloads(t *testing.T) {
	origin := echo(t)
	origin.Start()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		fatal(t, os.MkdirAll(filepath.Dir(path), 0o700))
		fatal(t, os.WriteFile(path, []byte(text), 0o600))
	}
	// As the kubelet mounts a ConfigMap: the file is a link through ..data to a version.
	write("v1/rules.yaml", limits("1"))
	fatal(t, os.Symlink("v1", filepath.Join(dir, "..data")))
	fatal(t, os.Symlink("..data/rules.yaml", filepath.Join(dir, "rules.yaml")))
	s := proxying(t, "--origin", origin.URL, "--rules", filepath.Join(dir, "rules.yaml"), "--watch-interval", "1h")
	want := func(limit string) {
		t.Helper()
		if got := s.limit(); got != limit {
			t.Errorf("limit %s: want %s", got, limit)
		}
	}
	want("1")

	write("v2/rules.yaml", limits("2"))
	fatal(t, os.Symlink("v2", filepath.Join(dir, "..data_tmp")))
	fatal(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	s.times("msg=reloaded", 1)
	want("2")

	fatal(t, os.Remove(filepath.Join(dir, "rules.yaml")))
	write("rules.yaml~", limits("3"))
	fatal(t, os.Rename(filepath.Join(dir, "rules.yaml~"), filepath.Join(dir, "rules.yaml")))
	s.until(`changed (x)" hash=` + s.hash(limits("3")))
	want("3")

	write("rules.yaml", limits("many"))
	s.until("rules.yaml:1:40: classes[0].limit")
	want("3")
	if f := s.report().File; f.Failures == 0 || !strings.Contains(f.Error, "rules.yaml:1:40") || f.Hash != s.hash(limits("3")) {
		t.Errorf("%+v: want the mistake, and the hash of the last good rules", f)
	}
	if a := s.reload(); a.status != 422 || !strings.Contains(a.body, "rules.yaml:1:40") {
		t.Errorf("%v: want 422, and the mistake", a)
	}

	write("rules.yaml", limits("4"))
	if a := s.reload(); a.status != 200 || !strings.Contains(a.body, `"change":"rules: `) {
		t.Errorf("%v: want the change", a)
	}
	want("4")
	s.forget()
	hangUp(t)
	s.until("msg=reloaded")
	s.end()
}

// hash returns the hash of a file of rules.
func (s *served) hash(text string) string {
	s.t.Helper()
	var report struct{ Hash string }
	_, stdout, _ := weir(s.t, "check", "--json", file(s.t, "rules.yaml", text))
	fatal(s.t, json.Unmarshal([]byte(stdout), &report))
	return report.Hash
}

// The file of the docs in front of a real origin: rates, a class, and what is told about them.
func TestProxyRules(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer origin.Close()
	s := proxying(t, "--origin", origin.URL, "--rules", file(t, "rules.yaml", `
rules:
  - {name: clients, by: [header X-Api-Key, address], rate: 3/h}
  - {name: logins, by: address, rate: 1/h, routes: POST /login}
classes:
  - {name: closed, routes: /closed, limit: 0}
`))
	s.times("class closed: limit = 0 rejects all of its requests", 1)
	for _, tt := range []struct {
		method, path, key string
		status            int
		says              string
	}{
		{"POST", "/login", "key-a", 200, `"clients";r=2`},
		{"POST", "/login", "key-a", 429, `"logins";r=0`},
		{"GET", "/", "key-a", 200, `"clients";r=1`},
		{"GET", "/closed", "key-a", 503, ""},
		{"GET", "/", "key-a", 200, `"clients";r=0`},
		{"GET", "/", "key-a", 429, `"clients";r=0`},
		{"GET", "/", "b", 200, `"clients";r=2`},
		{"GET", "/", "", 200, `"clients";r=2`},
	} {
		a := ask(t, http.DefaultClient, tt.method, s.public+tt.path, "X-Api-Key", tt.key)
		if got := a.header.Get("RateLimit"); a.status != tt.status || !strings.Contains(got, tt.says) {
			t.Errorf("%s %s as %q: %d, %s: want %d, %s", tt.method, tt.path, tt.key, a.status, got, tt.status, tt.says)
		}
	}
	metrics := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	for _, line := range []string{
		`weir_proxy_rule_decisions_total{decision="deny",rule="clients"} 1`, `weir_proxy_rule_decisions_total{decision="allow",rule="logins"} 1`,
		`weir_proxy_class_decisions_total{class="closed",decision="reject",reason="over_limit"} 1`, `weir_proxy_class_limit{class="closed"} 0`,
		`weir_proxy_class_requests_total{class="default"} 7`, `weir_proxy_rules_last_reload_successful 1`, `weir_proxy_shadow 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	if strings.Contains(metrics, "key-a") {
		t.Error("a key is a label")
	}
	clitest.LintMetrics(t, metrics)
	s.end()
}

// A proxy does not start with a file that is wrong, and says where.
func TestProxyRulesRefused(t *testing.T) {
	for want, path := range map[string]string{"a.yaml:1:7: mode": file(t, "a.yaml", "mode: x"), "none.yaml: no such file": "/none.yaml"} {
		code, _, stderr := weir(t, "proxy", "--origin", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", path)
		if code != 1 || !strings.Contains(stderr, "--rules: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, %s: want %s", path, code, stderr, want)
		}
	}
}

// A file for another command says so, below its errors.
func TestRulesOfAnotherCommand(t *testing.T) {
	ofServe := file(t, "serve.yaml", "rules: [{key: a, rate: 1/s}]\n")
	ofProxy := file(t, "proxy.yaml", "classes: [{name: a, routes: /a, limit: 5}]\n")
	for want, args := range map[string][]string{
		ofProxy + " is a file of weir proxy, not of weir serve\n": {"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", ofProxy},
		ofServe + " is a file of weir serve, not of weir proxy\n": {"proxy", "--origin", "http://127.0.0.1:1", "--rules", ofServe},
	} {
		if code, _, stderr := weir(t, args...); code != 1 || !strings.HasSuffix(stderr, want) || !strings.Contains(stderr, "unknown field") {
			t.Errorf("%v: %d, %s: want the errors, and %s", args, code, stderr, want)
		}
	}
}
