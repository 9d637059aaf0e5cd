//go:build system

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built is the directory of the binaries, if one has been built.
var (
	built    string
	building sync.Mutex
)

// weirBinary and labBinary build a binary once for all tests.
var (
	weirBinary = sync.OnceValues(func() (string, error) { return build("weir", ".") })
	labBinary  = sync.OnceValues(func() (string, error) { return build("weirlab", "../../lab/cmd/weirlab") })
)

func build(name, from string, flags ...string) (path string, err error) {
	building.Lock()
	defer building.Unlock()
	if built == "" {
		if built, err = os.MkdirTemp("", "weir-binary-"); err != nil {
			return "", err
		}
	}
	path = filepath.Join(built, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if out, err := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-tags", "grpcnotrace", "-o", path, from})...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// binary returns the path of the binary.
func binary(t *testing.T) string {
	t.Helper()
	path, err := weirBinary()
	fatal(t, err)
	return path
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
