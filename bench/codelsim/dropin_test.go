package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	_ "github.com/bohde/codel/stats" // the peer's simulation needs it
)

const (
	peerImport = "github.com/bohde/codel"
	weirImport = "github.com/weir-go/weir/codel"
)

// command runs the go command and returns its output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	testrig.Must(t, err)
	return string(b)
}

// moved is source with the import of the peer changed to that of weir.
func moved(t *testing.T, source string) string {
	t.Helper()
	if strings.Count(source, `"`+peerImport+`"`) != 1 {
		t.Fatalf("want one import of %s:\n%s", peerImport, source)
	}
	return strings.Replace(source, `"`+peerImport+`"`, `"`+weirImport+`"`, 1)
}

// overlay lays files over those of the module, without writing to it, and
// returns the flag of the go command. Files with empty content are hidden.
func overlay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for name, content := range files {
		abs, err := filepath.Abs(name)
		testrig.Must(t, err)
		replace[abs] = ""
		if content != "" {
			at := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
			testrig.Must(t, os.WriteFile(at, []byte(content), 0o644))
			replace[abs] = at
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	testrig.Must(t, err)
	at := filepath.Join(dir, "overlay.json")
	testrig.Must(t, os.WriteFile(at, b, 0o644))
	return "-overlay=" + at
}

func peerDir(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(command(t, "list", "-m", "-f", "{{.Dir}}", peerImport))
}

// The example of the peer's README runs with both imports. What the README
// leaves out is added: the package clause, the import of time, a main function.
func TestReadmeExample(t *testing.T) {
	readme := read(t, filepath.Join(peerDir(t), "README.md"))
	_, example, _ := strings.Cut(readme, "## Example")
	_, example, _ = strings.Cut(example, "```\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok || !strings.Contains(example, "func Example() {") {
		t.Fatalf("no example in the README:\n%s", readme)
	}
	source := "package main\n\n" + strings.Replace(example, `"context"`, "\"context\"\n    \"time\"", 1) +
		"\nfunc main() { Example(); println(\"ran\") }\n"
	for name, source := range map[string]string{"peer": source, "weir": moved(t, source)} {
		t.Run(name, func(t *testing.T) {
			if out := command(t, "run", overlay(t, map[string]string{"readme/main.go": source}), "./readme"); out != "ran\n" {
				t.Errorf("%q: want the example to run", out)
			}
		})
	}
}

// The peer's simulation runs with only the import changed.
func TestSimulation(t *testing.T) {
	files := map[string]string{}
	sources, err := filepath.Glob(filepath.Join(peerDir(t), "cmd/sim/*.go"))
	if err != nil || len(sources) == 0 {
		t.Fatal("no simulation: ", err)
	}
	for _, name := range sources {
		source := read(t, name)
		if strings.Contains(source, `"`+peerImport+`"`) {
			source = moved(t, source)
		}
		files["sim/"+filepath.Base(name)] = source
	}
	out := command(t, "run", overlay(t, files), "./sim", "-simulation-time", "500ms")
	if n := strings.Count(out, "method=codel"); n != 9 {
		t.Errorf("%d rows of codel: want 9\n%s", n, out)
	}
}

// The peer's own tests of its locks pass on weir's.
func TestPeerTests(t *testing.T) {
	dir := peerDir(t)
	files := map[string]string{
		"../../codel/peer_codel_test.go":    read(t, filepath.Join(dir, "codel_test.go")),
		"../../codel/peer_priority_test.go": read(t, filepath.Join(dir, "priority_test.go")),
	}
	ours, err := filepath.Glob("../../codel/*_test.go")
	testrig.Must(t, err)
	for _, name := range ours {
		files[name] = ""
	}
	out := command(t, "test", "-v", "-count=1", "-bench=.", "-benchtime=1000x", overlay(t, files), weirImport, "-args", "-sim")
	for _, want := range []string{"--- PASS: TestLock", "--- PASS: TestPriority", "--- PASS: TestConcurrentSimulation", "BenchmarkPLockBlocked"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}
