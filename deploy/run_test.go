package deploy_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The binary accepts the flags, the variables and the files of every rendering: it starts,
// gets ready, and ends after SIGTERM. Without its store, it says that it waits for it.
func TestRun(t *testing.T) {
	for name, v := range cases(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			files, err := render("weir", v)
			if err != nil {
				t.Fatal(err)
			}
			o := decode(t, documents(files))
			w := &o.workloads[0]
			replicas := 1
			if w.set != nil && w.replicas != nil {
				replicas = int(*w.replicas)
			}
			ports := freePorts(t, replicas)
			origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Of", "the origin") }))
			defer origin.Close()
			hosts := peerHosts(w, ports, strings.TrimPrefix(origin.URL, "http://"))
			var running []*process
			for i, port := range ports {
				running = append(running, contain(t, o, w, podName(w, i), port, hosts).start(t))
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			for _, p := range running {
				want := http.StatusOK
				if slices.Contains(w.container().Args, "--store-required") {
					want = http.StatusServiceUnavailable
				}
				awaitReady(t, client, p, want)
				checkTokens(t, client, p, w)
			}
			if w.container().Args[0] == "proxy" && w.flag("--tls-client-ca") == "" {
				resp, err := client.Get(running[0].public)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK || resp.Header.Get("Of") == "" {
					t.Errorf("%s %v: want the answer of the origin", resp.Status, resp.Header)
				}
			}
			client.CloseIdleConnections()
			stop(t, running)
		})
	}
}

// checkTokens asks for metrics, with the token of Prometheus if the workload has tokens of operators.
func checkTokens(t *testing.T, client *http.Client, p *process, w *workload) {
	t.Helper()
	for token, want := range map[string]int{"": http.StatusUnauthorized, "token-of-prometheus": http.StatusOK} {
		if w.flag("--admin-tokens") == "" {
			want = http.StatusOK
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", p.admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("metrics with the token %q: %s: want %d", token, resp.Status, want)
		}
	}
}

// peerHosts replaces the addresses of a StatefulSet's pods by addresses on loopback, and those of origins by one.
func peerHosts(w *workload, ports []string, origin string) *strings.Replacer {
	if w.set == nil {
		return strings.NewReplacer("app:8000", origin, "app-0.app:8000", origin, "app-1.app:8000", strings.Replace(origin, "127.0.0.1", "localhost", 1))
	}
	pairs := []string{w.set.Spec.ServiceName + ":8080", ports[0]} // for dns, after the names of pods
	for i, port := range ports {
		pairs = append([]string{podName(w, i) + "." + w.set.Spec.ServiceName + ":8080", port}, pairs...)
	}
	return strings.NewReplacer(pairs...)
}

// awaitReady waits until the readiness probe succeeds, as Kubernetes does, or says that the store is missing.
func awaitReady(t *testing.T, client *http.Client, p *process, want int) {
	t.Helper()
	status := ""
	for range 300 {
		resp, err := client.Get(p.admin + "/-/ready")
		if err != nil {
			t.Fatalf("%v\n%s", err, p.log)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		status = resp.Status + " " + string(body)
		if resp.StatusCode == want && (want == http.StatusOK || strings.Contains(status, "the store has not answered")) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s/-/ready: %s", p.admin, status)
}

// The rules of every manifest are valid.
func TestRules(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for name := range plain {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		for _, rules := range read(t, name).rules() {
			if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command(path, "check", file).CombinedOutput(); err != nil {
			t.Errorf("%s: weir check: %v\n%s", name, err, out)
		}
	}
}
