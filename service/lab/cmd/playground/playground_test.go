//go:build system

package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/figure"
)

// In WebAssembly, the simulator prints what it prints in this process, byte for byte.
func TestSameBytes(t *testing.T) {
	wasm := filepath.Join(t.TempDir(), "weir.wasm")
	build := exec.Command("go", "build", "-o", wasm, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	testrig.Must(t, err)
	var files []string
	for _, pattern := range []string{"../../scenarios/*.yaml", "../../scenarios/arena/*.yaml"} {
		found, err := filepath.Glob(pattern)
		testrig.Must(t, err)
		for _, file := range found {
			base := filepath.Base(file)
			if !strings.HasPrefix(base, "fleet") && !strings.HasPrefix(base, "sla") && base != "large.yaml" { // these take longer
				files = append(files, file)
			}
		}
	}
	if len(files) < 30 {
		t.Fatalf("%d scenarios", len(files))
	}
	node := exec.Command("node", append([]string{"run.mjs", wasm, filepath.Join(strings.TrimSpace(string(root)), "lib/wasm/wasm_exec.js")}, files...)...)
	node.Stderr = os.Stderr
	out, err := node.Output()
	testrig.Must(t, err)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(files) {
		t.Fatalf("%d results of %d scenarios", len(lines), len(files))
	}
	for i, file := range files {
		var got struct{ JSON, Error string }
		testrig.Must(t, json.Unmarshal(lines[i], &got))
		figures, err := figure.Load([]string{file}, "", nil)
		testrig.Must(t, err)
		testrig.Must(t, figure.Simulate(t.Context(), figures, nil, new(atomic.Int64), nil))
		var want strings.Builder
		testrig.Must(t, figure.PrintJSON(&want, figures))
		if got.JSON != want.String() {
			t.Errorf("%s: %d bytes (%s), natively %d, and they differ", file, len(got.JSON), got.Error, want.Len())
		}
	}
}
