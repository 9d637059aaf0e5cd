//go:build system

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/figure"
)

// In WebAssembly, the simulator prints what it prints in this process, byte for byte: for scenarios of the docs, and for
// what the playground makes of its controls.
func TestSameBytes(t *testing.T) {
	wasm := filepath.Join(t.TempDir(), "weir.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", wasm, ".") // as the site does
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	testrig.Must(t, err)
	var files []string
	for _, name := range []string{"capacity", "codel", "knee", "loops", "outage", "priorities", "rate", "retry-storm", "tenants"} {
		files = append(files, "../../scenarios/"+name+".yaml")
	}
	settings := exec.Command("node", "settings.mjs")
	settings.Stderr = os.Stderr
	text, err := settings.Output()
	testrig.Must(t, err)
	var scenarios []string
	testrig.Must(t, json.Unmarshal(text, &scenarios))
	for i, text := range scenarios {
		files = append(files, filepath.Join(t.TempDir(), strconv.Itoa(i)+".yaml"))
		testrig.Must(t, os.WriteFile(files[len(files)-1], []byte(text), 0o600))
	}
	if len(scenarios) < 30 {
		t.Fatalf("%d scenarios", len(scenarios))
	}
	node := exec.Command("node", append([]string{"run.mjs", wasm, filepath.Join(strings.TrimSpace(string(root)), "lib/wasm/wasm_exec.js")}, files...)...)
	node.Stderr = os.Stderr
	pipe, err := node.StdoutPipe()
	testrig.Must(t, err)
	testrig.Must(t, node.Start())
	lines := json.NewDecoder(pipe)
	for _, file := range files {
		figures, err := figure.Load([]string{file}, "", nil)
		testrig.Must(t, err)
		testrig.Must(t, figure.Simulate(t.Context(), figures, nil, new(atomic.Int64), nil))
		var want strings.Builder
		testrig.Must(t, figure.PrintJSON(&want, figures))
		var got struct{ JSON, Error string }
		testrig.Must(t, lines.Decode(&got))
		if got.JSON != want.String() {
			t.Errorf("%s: %d bytes (%s), natively %d, and they differ", file, len(got.JSON), got.Error, want.Len())
		}
	}
	testrig.Must(t, node.Wait())
}

// The page's side of the simulator gives up what takes too long, and begins again after a failure.
func TestSimulator(t *testing.T) {
	if text, err := exec.Command("node", "simulator.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}
