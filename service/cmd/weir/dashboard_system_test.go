//go:build system

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// A scraper is a Prometheus that scrapes a listener of operators, and has the alerts.
type scraper struct{ url string }

func startPrometheus(t *testing.T, job, admin, secret string) scraper {
	t.Helper()
	alerts, err := filepath.Abs("../../../deploy/prometheus/alerts.yaml")
	fatal(t, err)
	cfg := fmt.Sprintf(`
global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: [%s]
scrape_configs:
  - job_name: %s
    authorization: {credentials: %s}
    static_configs: [{targets: [%q]}]
`, alerts, job, secret, strings.TrimPrefix(admin, "http://"))
	address := "127.0.0.1:" + redistest.FreePort(t)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	fatal(t, err)
	cmd := exec.Command("prometheus", "--config.file="+file(t, "prometheus.yml", cfg), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
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

// series returns the number of series that a query has.
func (p scraper) series(query string) (n int, err error) {
	var data struct{ Result []any }
	err = p.get("/api/v1/query?query="+url.QueryEscape(query), &data)
	return len(data.Result), err
}

// Each query of the dashboard of weir proxy has an answer of a real Prometheus, which scrapes with a token, and an
// alert begins to count when an origin fails.
func TestProxyDashboard(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/breaks" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Cache-Control", "max-age=1")
		fmt.Fprintln(w, r.URL.Path)
	}))
	defer origin.Close()
	s := proxying(t, "--origin", origin.URL, "--origin", nowhere, "--admin-tokens", file(t, "tokens.yaml", operatorTokens), "--rules", file(t, "proxy.yaml", `
rules: [{name: clients, by: address, rate: 1000/s}]
classes: [{name: cached, routes: /cached, cache: {ttl: 1s}}]
`))
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				for _, path := range []string{"/", "/cached"} {
					_, _ = tryAsk(http.DefaultClient, "GET", s.public+path)
					_, _ = tryAsk(http.DefaultClient, "POST", s.public+path)
				}
				_, _ = tryAsk(http.DefaultClient, "POST", s.public+"/breaks")
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	p := startPrometheus(t, "weir-proxy", s.admin, "secret-of-the-operator")
	queries, _ := dashboard(t, "grafana/proxy.json")
	for _, query := range queries {
		query = strings.NewReplacer("[1m]", "[5s]", "$instance", ".*", "$class", ".*").Replace(query)
		redistest.Until(t, query, func() error {
			if n, err := p.series(query); err != nil || n > 0 {
				return err
			}
			return errors.New("no series")
		})
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
	s.until("the origin fails")
}
