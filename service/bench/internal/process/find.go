package process

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// Envoy returns the path of Envoy: the one on the PATH, or else where make need puts it.
func Envoy() string {
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	gopath, _ := exec.Command("go", "env", "GOPATH").Output()
	return filepath.Join(strings.TrimSpace(string(gopath)), "clients/envoy/bin/envoy")
}
