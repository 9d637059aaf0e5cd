package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// readComposition decodes a Compose file strictly.
func readComposition(t *testing.T, name string) (c composition) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// answers asks a URL until its status is the wanted one.
func answers(t *testing.T, method, url string, status int) {
	t.Helper()
	got := ""
	for range 300 {
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got = resp.Status; resp.StatusCode == status {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s %s: %s: want %d", method, url, got, status)
}

// Compose files mount the directory of the rules. With a mount of the file, weir would not see
// what an editor saves by a rename: here it does.
func TestComposeSeesRenames(t *testing.T) {
	for _, name := range []string{"compose.yaml", "compose-redis.yaml", "compose-valkey.yaml"} {
		c := readComposition(t, name)
		w := c.Services["weir"]
		if name != "compose.yaml" {
			w = c.Weir
		}
		mount := ""
		for _, v := range w.Volumes {
			source, target, _ := strings.Cut(v, ":")
			if strings.HasPrefix(target, "/etc/weir/rules") {
				mount, _, _ = strings.Cut(target, ":")
				if info, err := os.Stat(source); err != nil || !info.IsDir() {
					t.Errorf("%s: %s: want a directory", name, v)
				}
			}
		}
		if want := "--rules=" + mount; mount == "" || !strings.Contains(strings.Join(w.Command, "\n")+"\n", want+"\n") {
			t.Errorf("%s: %v, %v: want %s", name, w.Command, w.Volumes, want)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("rules")); err != nil {
		t.Fatal(err)
	}
	p := container{args: []string{"serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rules=" + dir}, env: []string{"WEIR_LOG_FORMAT=json", "WEIR_DRAIN_DELAY=0s"}}.start(t)
	answers(t, "POST", p.public+"/lease/report:1", http.StatusOK)
	answers(t, "POST", p.public+"/lease/task", http.StatusNotFound)
	saved := filepath.Join(dir, ".rules.yaml.swp")
	if err := os.WriteFile(saved, []byte("rules: [{glob: '*', rate: 1/h, concurrency: {limit: 1000}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(saved, filepath.Join(dir, "rules.yaml")); err != nil {
		t.Fatal(err)
	}
	answers(t, "POST", p.public+"/lease/task", http.StatusOK)
	stop(t, []*process{p})
}

// The unit sets flags by variables, so that /etc/default/weir can change them.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("systemd/weir.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(text)
	if !strings.Contains(unit, "\nExecStart=/usr/local/bin/weir serve\n") || strings.Index(unit, "\nEnvironment=") > strings.Index(unit, "\nEnvironmentFile=") {
		t.Error("ExecStart must have no flags, because they would win over variables")
	}
	dir := t.TempDir()
	c := container{args: []string{"serve"}, env: []string{"WEIR_LOG_FORMAT=json", "WEIR_DRAIN_DELAY=0s"}}
	for _, m := range regexp.MustCompile(`(?m)^Environment=(\w+)=(.*)$`).FindAllStringSubmatch(unit, -1) {
		if strings.HasPrefix(m[2], "/") {
			m[2] = dir + m[2]
			if err := os.MkdirAll(filepath.Dir(m[2]), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c.env = append(c.env, m[1]+"="+m[2])
	}
	rules := "rules: [{key: a, rate: 1/h, concurrency: {limit: 1}}]\n"
	if err := os.WriteFile(filepath.Join(dir, "/etc/weir/rules.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freePorts(t, 1)[0]
	c.env = append(c.env, "WEIR_LISTEN="+address, "WEIR_ADMIN=127.0.0.1:0") // of /etc/default/weir: the last one counts
	p := c.start(t)
	if want := "http://" + address; p.public != want {
		t.Errorf("it listens at %s: want %s", p.public, want)
	}
	answers(t, "POST", fmt.Sprintf("%s/lease/a", p.public), http.StatusOK)
	stop(t, []*process{p})
	if _, err := os.Stat(filepath.Join(dir, "/var/lib/weir/state")); err != nil {
		t.Errorf("no state: %v\n%s", err, p.log)
	}
}
