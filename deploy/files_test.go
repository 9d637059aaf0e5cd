package deploy_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
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
	must(t, err)
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
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
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
	must(t, os.CopyFS(dir, os.DirFS("rules")))
	p := container{args: []string{"serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rules=" + dir}, env: []string{"WEIR_LOG_FORMAT=json", "WEIR_DRAIN_DELAY=0s"}}.start(t)
	answers(t, "POST", p.public+"/lease/report:1", http.StatusOK)
	answers(t, "POST", p.public+"/lease/task", http.StatusNotFound)
	saved := filepath.Join(dir, ".rules.yaml.swp")
	must(t, os.WriteFile(saved, []byte("rules: [{glob: '*', rate: 1/h, concurrency: {limit: 1000}}]\n"), 0o600))
	must(t, os.Rename(saved, filepath.Join(dir, "rules.yaml")))
	answers(t, "POST", p.public+"/lease/task", http.StatusOK)
	stop(t, []*process{p})
}

// The units set flags by variables, so that files in /etc/default can change them, and systemd learns when
// the process serves.
func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		unit, command string
		files         map[string]string
		own           []string // of /etc/default: the last one counts
		method, path  string
		status        int
		left          string // a file that it leaves
	}{
		{unit: "weir", command: "serve", files: map[string]string{"/etc/weir/rules.yaml": "rules: [{key: a, rate: 1/h, concurrency: {limit: 1}}]\n"},
			method: "POST", path: "/lease/a", status: http.StatusOK, left: "/var/lib/weir/state"},
		{unit: "weir-proxy", command: "proxy", files: map[string]string{"/etc/weir/proxy.yaml": "rules: [{name: a, rate: 1/h}]\n"},
			own: []string{"WEIR_ORIGIN=http://127.0.0.1:1", "WEIR_RULES=/etc/weir/proxy.yaml"}, method: "GET", path: "/", status: http.StatusBadGateway},
	} {
		t.Run(tt.unit, func(t *testing.T) {
			text, err := os.ReadFile("systemd/" + tt.unit + ".service")
			must(t, err)
			unit := string(text)
			if !strings.Contains(unit, "\nExecStart=weir "+tt.command+"\n") || strings.Index(unit, "\nEnvironment=") > strings.Index(unit, "\nEnvironmentFile=") {
				t.Error("ExecStart must have no flags, because they would win over variables")
			}
			for _, want := range []string{"Type=notify", "Restart=on-failure", "RestartSec=2s", "StartLimitIntervalSec=0", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
				"EnvironmentFile=-/etc/default/" + tt.unit} {
				if !strings.Contains(unit, "\n"+want+"\n") {
					t.Errorf("the unit does not have %s", want)
				}
			}
			dir := t.TempDir()
			var env []string
			set := func(name, value string) {
				if strings.HasPrefix(value, "/") {
					value = dir + value
					must(t, os.MkdirAll(filepath.Dir(value), 0o700))
				}
				env = append(env, name+"="+value)
			}
			for _, m := range regexp.MustCompile(`(?m)^Environment=(\w+)=(.*)$`).FindAllStringSubmatch(unit, -1) {
				set(m[1], m[2])
			}
			address := freePorts(t, 1)[0]
			for _, v := range append(tt.own, "WEIR_LISTEN="+address, "WEIR_ADMIN=127.0.0.1:0", "WEIR_DRAIN_DELAY=0s") {
				name, value, _ := strings.Cut(v, "=")
				set(name, value)
			}
			for name, content := range tt.files {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			p := supervise(t, tt.command, env)
			answers(t, tt.method, "http://"+address+tt.path, tt.status)
			stop(t, []*process{p})
			if tt.left != "" {
				if _, err := os.Stat(filepath.Join(dir, tt.left)); err != nil {
					t.Errorf("%v\n%s", err, p.log)
				}
			}
		})
	}
}

// supervise starts a command of weir, and waits until it says that it is ready, as systemd does.
func supervise(t *testing.T, command string, env []string) *process {
	t.Helper()
	path, err := binary()
	must(t, err)
	dir, err := os.MkdirTemp("", "weir") // shorter than TempDir: the path of a socket is bounded
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must(t, err)
	defer ln.Close()
	p := &process{cmd: exec.Command(path, command), log: &strings.Builder{}, read: make(chan struct{})}
	p.cmd.Env = append(env, "NOTIFY_SOCKET="+socket)
	p.cmd.Stderr = p.log
	close(p.read) // Wait waits for the log
	must(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill() }) // after stop, without effect
	b := make([]byte, 100)
	must(t, ln.SetReadDeadline(time.Now().Add(time.Minute)))
	if n, err := ln.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Fatalf("%s says %q, %v\n%s", command, b[:n], err, p.log)
	}
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
