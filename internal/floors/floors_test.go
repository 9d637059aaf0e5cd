package floors

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The module itself keeps the rules.
func TestFloors(t *testing.T) {
	files := module(t)
	if len(files) < 20 {
		t.Fatalf("found %d files: that is not the module", len(files))
	}
	breaches, err := Check(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range breaches {
		t.Error(b)
	}
}

// module reads all Go source of the module that this package is in, bar other
// modules below it.
func module(t *testing.T) (files []File) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root:
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, ".go"):
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files = append(files, File{filepath.ToSlash(rel), string(source)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Each rule is seen failing here, on every build.
func TestEachRuleBites(t *testing.T) {
	const ours = `"github.com/weir-go/weir/`
	for _, tt := range []struct {
		rule, file, source string
		want               string // in the only breach; empty: none
	}{
		{"every package is on a floor", "util/util.go", ``, `package "util" is on no floor`},

		{"the words import nothing of ours", "weir.go", `import _ ` + ours + `limit"`, "imports limit, which is not below it"},
		{"pure code does not import shells", "limit/a.go", `import _ ` + ours + `inflight"`, "imports inflight, which is not below it"},
		{"pure code does not import its neighbours", "limit/a.go", `import _ ` + ours + `gate"`, "imports gate, which is not below it"},
		{"but gate imports limit", "gate/a.go", `import _ ` + ours + `limit"`, ""},
		{"shells do not import each other", "inflight/a.go", `import _ ` + ours + `rate"`, "imports rate, which is not below it"},
		{"but cache imports flight", "cache/a.go", `import _ ` + ours + `flight"`, ""},
		{"shells do not import edges", "inflight/a.go", `import _ ` + ours + `proxy"`, "imports proxy, which is not below it"},
		{"edges do not import the lab", "proxy/a.go", `import _ ` + ours + `lab/load"`, "imports lab/load, which is not below it"},
		{"edges do not import each other", "server/a.go", `import _ ` + ours + `proxy"`, "imports proxy, which is not below it"},
		{"but a protocol imports the server", "server/respapi/a.go", `import _ ` + ours + `server"`, ""},
		{"the lab does not import edges", "lab/load/a.go", `import _ ` + ours + `proxy"`, "the lab stands on the library"},
		{"but the demonstration shows the proxy", "lab/demo/a.go", `import _ ` + ours + `proxy"`, ""},
		{"the lab does not import its neighbours", "lab/origin/a.go", `import _ ` + ours + `lab/load"`, "imports lab/load, which is not below it"},
		{"nobody imports the binary", "lab/demo/a.go", `import _ ` + ours + `cmd/weir"`, "imports cmd/weir, which is not below it"},
		{"the binary imports all", "cmd/weir/a.go", `import _ ` + ours + `lab/demo"`, ""},
		{"everybody imports the words", "gate/a.go", `import _ "github.com/weir-go/weir"`, ""},
		{"a test imports what it likes of ours", "gate/a_test.go", `import _ ` + ours + `inflight"`, ""},

		{"the words do not lock", "weir.go", `import _ "sync"`, "imports sync, which its floor does without"},
		{"nor count atomically", "weir.go", `import _ "sync/atomic"`, "imports sync/atomic"},
		{"nor log", "weir.go", `import _ "log/slog"`, "imports log/slog"},
		{"but have contexts", "weir.go", `import _ "context"`, ""},
		{"pure code has none", "gate/a.go", `import _ "context"`, "imports context"},
		{"and does not lock", "gate/a.go", `import _ "sync"`, "imports sync"},
		{"nor listen", "lab/pace/a.go", `import _ "net/http"`, "imports net/http"},
		{"nor open files", "lab/trace/a.go", `import _ "os"`, "imports os"},
		{"its tests may", "lab/trace/a_test.go", `import _ "os"`, ""},
		{"shells lock", "inflight/a.go", `import _ "sync"`, ""},
		{"but know no HTTP", "inflight/a.go", `import _ "net/http"`, "imports net/http"},
		{"and do not log", "inflight/a.go", `import _ "log/slog"`, "imports log/slog"},
		{"the server's core knows no network", "server/a.go", `import _ "net/netip"`, "imports net/netip"},
		{"the simulator does not lock", "lab/sim/a.go", `import _ "sync"`, "imports sync"},

		{"the library has no dependencies", "inflight/a.go", `import _ "golang.org/x/sync/semaphore"`, "the standard library only"},
		{"nor have its tests", "limit/a_test.go", `import _ "pgregory.net/rapid"`, "the standard library only"},
		{"a path like ours is not ours", "limit/a.go", `import _ "github.com/weir-go/weirdo"`, "the standard library only"},
		{"edges have", "proxy/a.go", `import _ "golang.org/x/net/netutil"`, ""},

		{"pure code starts no goroutine", "gate/a.go", `func f() { go f() }`, "starts a goroutine"},
		{"nor does the simulator", "lab/sim/a.go", `func f() { go f() }`, "starts a goroutine"},
		{"shells may", "inflight/a.go", `func f() { go f() }`, ""},
		{"pure code reads no clock", "gate/a.go", `import "time"; var x = func() any { return time.Now() }`, "uses time.Now in pure code"},
		{"under any name", "gate/a.go", `import t "time"; func f() any { return t.Since(t.Time{}) }`, "uses time.Since in pure code"},
		{"not even as a value", "gate/a.go", `import "time"; func f() any { return time.Sleep }`, "uses time.Sleep in pure code"},
		{"nor behind a dot", "gate/a.go", `import . "time"; func f() any { return Now() }`, "imports time with a dot"},
		{"nor has it timers", "limit/a.go", `import "time"; func f() { time.AfterFunc(1, f) }`, "uses time.AfterFunc in pure code"},
		{"durations are fine", "limit/a.go", `import "time"; var x = 3 * time.Second`, ""},
		{"its tests have clocks", "limit/a_test.go", `import "time"; func f() any { return time.Now() }`, ""},
		{"pure code has no global chance", "lab/pace/a.go", `import "math/rand/v2"; func f() any { return rand.IntN(2) }`, "uses the global source rand.IntN"},
		{"of either kind", "lab/pace/a.go", `import r "math/rand"; func f() any { return r.Float64() }`, "uses the global source rand.Float64"},
		{"nor the machine's", "lab/pace/a.go", `import _ "crypto/rand"`, "imports crypto/rand"},
		{"but takes a source", "lab/pace/a.go", `import "math/rand/v2"; func f(r *rand.Rand) any { return rand.New(rand.NewPCG(r.Uint64(), 0)) }`, ""},

		{"the library does nothing by itself", "inflight/a.go", `func init() {}`, "has an init function"},
		{"and shares no pool", "inflight/a.go", `import "sync"; var p sync.Pool`, "has a sync.Pool of the whole package"},
		{"no channel", "inflight/a.go", `var c = make(chan int)`, "has a channel of the whole package"},
		{"no timer", "inflight/a.go", `import "time"; var t = time.NewTimer(1)`, "of the whole package"},
		{"no epoch", "inflight/a.go", `import "time"; var t = time.Now()`, "of the whole package"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			breaches, err := Check([]File{{tt.file, "package p\n" + tt.source}})
			switch {
			case err != nil:
				t.Fatal(err)
			case tt.want == "" && len(breaches) > 0:
				t.Errorf("%s: %v: want no breach", tt.source, breaches)
			case tt.want != "" && (len(breaches) != 1 || !strings.Contains(breaches[0].String(), tt.want)):
				t.Errorf("%s: %v: want %q", tt.source, breaches, tt.want)
			}
		})
	}
}
