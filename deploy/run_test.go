package deploy_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The binary accepts the flags, the variables and the files of every rendering: it starts,
// gets ready, and ends after SIGTERM.
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
			hosts := peerHosts(w, ports)
			var running []*process
			for i, port := range ports {
				running = append(running, contain(t, o, w, podName(w, i), port, hosts).start(t))
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			for _, p := range running {
				awaitReady(t, client, p)
			}
			client.CloseIdleConnections()
			stop(t, running)
		})
	}
}

// peerHosts replaces the addresses of a StatefulSet's pods by addresses on loopback.
func peerHosts(w *workload, ports []string) *strings.Replacer {
	if w.set == nil {
		return strings.NewReplacer()
	}
	pairs := []string{w.set.Spec.ServiceName + ":8080", ports[0]} // for dns, after the names of pods
	for i, port := range ports {
		pairs = append([]string{podName(w, i) + "." + w.set.Spec.ServiceName + ":8080", port}, pairs...)
	}
	return strings.NewReplacer(pairs...)
}

// awaitReady waits until the readiness probe succeeds, as Kubernetes does.
func awaitReady(t *testing.T, client *http.Client, p *process) {
	t.Helper()
	status := ""
	for range 300 {
		resp, err := client.Get(p.admin + "/-/ready")
		if err != nil {
			t.Fatalf("%v\n%s", err, p.log)
		}
		resp.Body.Close()
		if status = resp.Status; resp.StatusCode == http.StatusOK {
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
		if err := os.WriteFile(file, []byte(read(t, name).configMaps[0].Data["rules.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "check", file).CombinedOutput(); err != nil {
			t.Errorf("%s: weir check: %v\n%s", name, err, out)
		}
	}
}
