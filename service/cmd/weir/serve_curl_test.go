//go:build system

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// One port serves HTTP/1.1 and HTTP/2 without TLS, also to curl.
func TestServeCurl(t *testing.T) {
	s := serving(t)
	for flag, want := range map[string]string{"--http1.1": "200 1.1", "--http2-prior-knowledge": "200 2"} {
		out, err := exec.Command("curl", "-sS", flag, "-o", filepath.Join(t.TempDir(), "body"), "-w", "%{http_code} %{http_version}", "-X", "POST", s.public+"/rate/a").CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("curl %s: %v %s: want %s", flag, err, out, want)
		}
	}
	s.end()
}
