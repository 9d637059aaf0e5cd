package deploy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// binaryDirs are the directories of the binaries that have been built.
var (
	binaryDirs []string
	building   sync.Mutex
)

// binary and labBinary build a binary once for all tests, and return its path.
var (
	binary    = sync.OnceValues(func() (string, error) { return build("../service", "weir") })
	labBinary = sync.OnceValues(func() (string, error) { return build("../service/lab", "weirlab") })
)

func build(module, name string) (string, error) {
	building.Lock()
	defer building.Unlock()
	dir, err := os.MkdirTemp("", "weir-deploy")
	if err != nil {
		return "", err
	}
	binaryDirs = append(binaryDirs, dir)
	path := filepath.Join(dir, name)
	out, err := exec.Command("go", "build", "-C", module, "-tags", "grpcnotrace", "-o", path, "./cmd/"+name).CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Helm logs each link of the chart
	code := m.Run()
	for _, dir := range binaryDirs {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// A container is a container of a manifest as a process: its command line and its
// environment, with files in a directory of the test and ports on loopback.
type container struct {
	args, env []string
	dir       string
	listen    string // the address of --listen
	root      string // the files of the image, with /weir; "" for those of the machine
}

// contain translates the container of a pod. hosts replaces texts of the command line, such
// as the addresses of other pods.
func contain(t *testing.T, o objects, w *workload, pod, listen string, hosts *strings.Replacer) container {
	t.Helper()
	c := container{dir: t.TempDir(), listen: listen}
	for _, m := range w.container().VolumeMounts {
		c.fill(t, o, w, m)
	}
	variables := strings.NewReplacer("$(POD_NAME)", pod)
	for _, arg := range w.container().Args {
		arg = hosts.Replace(variables.Replace(arg))
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case name == "--listen":
			arg = "--listen=" + listen
		case strings.HasPrefix(value, ":"): // a port of all addresses
			arg = name + "=127.0.0.1:0"
		case strings.HasPrefix(value, "/") && name != "--health-path":
			arg = name + "=" + c.dir + value
		}
		c.args = append(c.args, arg)
	}
	if token := w.pod.Spec.AutomountServiceAccountToken; token != nil && *token { // an API at which nothing listens
		c.env = append(c.env, "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=1")
	}
	for _, e := range w.container().Env {
		c.env = append(c.env, e.Name+"="+hosts.Replace(c.value(o, e, pod)))
	}
	return c
}

// value returns the value of a variable. Secrets that the values of the chart name hold an
// address at which nothing listens, or a secret.
func (c *container) value(o objects, e corev1.EnvVar, pod string) string {
	switch {
	case e.ValueFrom == nil:
		return e.Value
	case e.ValueFrom.FieldRef != nil:
		return pod
	case e.Name == "WEIR_STORE":
		return "redis://127.0.0.1:1"
	}
	ref := e.ValueFrom.SecretKeyRef
	if i := slices.IndexFunc(o.secrets, hasName[*corev1.Secret](ref.Name)); i >= 0 {
		return string(o.secrets[i].Data[ref.Key])
	}
	return secretOfTest
}

const secretOfTest = "a-secret-of-the-test-that-is-long-enough"

// fill writes the files of a mounted volume.
func (c *container) fill(t *testing.T, o objects, w *workload, m corev1.VolumeMount) {
	t.Helper()
	files := map[string]string{}
	switch m.Name {
	case "rules":
		if files = o.rules(); files == nil {
			files = map[string]string{"rules.yaml": "rules: [{glob: '*', rate: 100/s}]\n"}
			if w.flag("--origin") != "" {
				files = map[string]string{"proxy.yaml": "rules: [{name: clients, by: address, rate: 100/s}]\n"}
			}
		}
	case "admin":
		files["tokens.yaml"] = "tokens: [{name: prometheus, token: token-of-prometheus, allow: [metrics]}]\n"
	case "peers":
		files[filepath.Base(w.flag("--peer-secret-file"))] = secretOfTest
	case "upstream":
		files[filepath.Base(w.flag("--upstream-token-file"))] = secretOfTest
	case "tokens":
		files["tokens.yaml"] = "tokens: [{name: ops, token: token-of-the-test, allow: [decide, admin]}]\n"
	case "tls":
		files = certificate(t)
	}
	dir := filepath.Join(c.dir, m.MountPath)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A process is a weir serve or weir proxy that runs.
type process struct {
	public, admin string // URLs
	cmd           *exec.Cmd
	log           *strings.Builder // complete after wait
	read          chan struct{}    // closed at the end of the log
}

// start starts the process, and waits until it listens.
func (c container) start(t *testing.T) *process {
	t.Helper()
	var err error
	path, confined := "/weir", (*syscall.SysProcAttr)(nil)
	if c.root != "" {
		confined = confine(c.root)
	} else if path, err = binary(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(path, c.args...), log: &strings.Builder{}, read: make(chan struct{})}
	p.cmd.Env, p.cmd.SysProcAttr = c.env, confined
	errors, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() }) // after stop, without effect
	ready := make(chan [2]string, 1)
	go p.listen(errors, ready)
	addresses, ok := <-ready
	if !ok {
		p.cmd.Wait()
		t.Fatalf("%v ends: %s", c.args, p.log)
	}
	p.public, p.admin = addresses[0], addresses[1]
	return p
}

// listen reads the log. It sends the URLs of the listeners.
func (p *process) listen(log io.Reader, ready chan<- [2]string) {
	defer close(p.read)
	defer close(ready)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		p.log.Write(append(lines.Bytes(), '\n'))
		var line struct{ Msg, Listen, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && (line.Msg == "weir serve" || line.Msg == "weir proxy") {
			ready <- [2]string{line.Listen, line.Admin}
		}
	}
}

// stop ends processes as Kubernetes does, and checks that they end well.
func stop(t *testing.T, all []*process) {
	t.Helper()
	for _, p := range all {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, p := range all {
		<-p.read
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", p.cmd.Args, err, p.log)
		}
	}
}

// freePorts returns addresses on loopback at which nothing listens. Until the test ends, no other call
// returns them, nor does redistest.FreePort: the ports of UDP are taken meanwhile.
func freePorts(t *testing.T, n int) (free []string) {
	t.Helper()
	for range 100 * n {
		if len(free) == n {
			break
		}
		// Below the ports that the system gives to listeners without one, such as --admin here.
		address := fmt.Sprint("127.0.0.1:", 10000+rand.N(20000))
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		ln, err := net.Listen("tcp", address)
		if err == nil {
			defer ln.Close()
			free = append(free, address)
		}
	}
	if len(free) < n {
		t.Fatal("no free ports")
	}
	return free
}
