package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// build builds the binary.
func build(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "weir")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", name, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

// start runs the binary until it logs its addresses, and returns its further lines.
func start(t *testing.T, name string, args ...string) (cmd *exec.Cmd, listen, admin string, log *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(name, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	log = bufio.NewScanner(stderr)
	if !log.Scan() {
		t.Fatalf("it ended at once: %v", cmd.Wait())
	}
	address := func(key string) string {
		m := regexp.MustCompile(`\b` + key + `=(\S+)`).FindStringSubmatch(log.Text())
		if m == nil {
			return ""
		}
		return m[1]
	}
	return cmd, address("listen"), address("admin"), log
}

// kill returns once the process has ended, and no longer writes to a directory of its test.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// until reads the log to a line with the text.
func until(t *testing.T, log *bufio.Scanner, text string) {
	t.Helper()
	for log.Scan() {
		if strings.Contains(log.Text(), text) {
			return
		}
	}
	t.Fatalf("the log ends without %q", text)
}

func get(url string) (status int, body string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// SIGTERM: no new connections, requests in flight are finished, exit status 0.
func TestDrain(t *testing.T) {
	arrived, finish := make(chan bool, 1), make(chan bool)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- true
		<-finish
		_, _ = io.WriteString(w, "finished")
	}))
	defer origin.Close()
	cmd, listen, admin, log := start(t, build(t), "proxy", "--origin", origin.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s")
	if status, _, err := get(admin + "/-/ready"); status != 200 {
		t.Errorf("ready: %d, %v: want 200", status, err)
	}
	answered := make(chan error)
	go func() {
		status, body, err := get(listen)
		if status != 200 || body != "finished" {
			err = errors.Join(err, errors.New(http.StatusText(status)+": "+body))
		}
		answered <- err
	}()
	<-arrived
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, log, "draining")
	if status, _, err := get(admin + "/-/ready"); status != 503 {
		t.Errorf("ready while draining: %d, %v: want 503", status, err)
	}
	// The listener closes soon after that line.
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(listen, "http://"))
		if err != nil {
			break
		}
		conn.Close()
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("the request in flight: %v: want it finished", err)
	}
	until(t, log, "drained")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: want exit status 0", err)
	}
}

// Requests that do not finish within the grace are cut off, which is an error.
func TestGraceIsOver(t *testing.T) {
	arrived := make(chan bool, 1)
	stuck := make(chan bool)
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-stuck
	}))
	defer origin.Close()
	defer close(stuck)
	cmd, listen, _, log := start(t, build(t), "proxy", "--origin", origin.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s", "--grace", "100ms")
	go func() { _, _, _ = get(listen) }()
	<-arrived
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, log, "--grace=100ms was too short")
	if err, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || err.ExitCode() != 1 {
		t.Errorf("%v: want exit status 1", err)
	}
}
