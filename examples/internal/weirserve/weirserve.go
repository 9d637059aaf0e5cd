// Package weirserve starts weir serve for tests of the examples.
package weirserve

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Start builds weir serve, starts it with rules, and returns its URL when it answers. It ends with
// the test, which belongs to a directory of examples.
func Start(t *testing.T, rules string) (url string) {
	t.Helper()
	dir := t.TempDir()
	binary, file := filepath.Join(dir, "weir"), filepath.Join(dir, "rules.yaml")
	if out, err := exec.Command("go", "build", "-C", "../../service", "-tags", "grpcnotrace", "-o", binary, "./cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := FreeAddr(t)
	cmd := exec.Command(binary, "serve", "--rules", file, "--listen", addr, "--admin", FreeAddr(t))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 500 {
		if resp, err := http.Get("http://" + addr + "/healthz"); err == nil {
			_ = resp.Body.Close()
			return "http://" + addr
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("weir serve does not answer")
	return ""
}

// FreeAddr returns an address at which nothing listens.
func FreeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
