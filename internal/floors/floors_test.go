package floors

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

// The module itself keeps the rules.
func TestFloors(t *testing.T) {
	files := module(t)
	if len(files) < 20 {
		t.Fatalf("found %d files: that is not the module", len(files))
	}
	breaches, err := Check(files)
	testrig.Must(t, err)
	for _, b := range breaches {
		t.Error(b)
	}
}

// No package has too many lines.
func TestSizes(t *testing.T) {
	for _, b := range CheckSizes(module(t)) {
		t.Error(b)
	}
}

// A package may have maxLines lines without its tests, or as many as the list of larger packages says.
func TestSizesBite(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	for _, tt := range []struct {
		rule   string
		files  []File
		larger map[string]int
		want   string // in the only breach; empty: none
	}{
		{"few lines", []File{{"tree/a/a.go", lines(maxLines)}}, nil, ""},
		{"too many in one file", []File{{"tree/a.go", lines(maxLines + 1)}}, nil, "tree:0: has 2001 lines"},
		{"too many in two files", []File{{"tree/a/a.go", lines(1500)}, {"tree/a/b.go", lines(501)}}, nil, "tree/a:0: has 2001 lines"},
		{"too many in two packages", []File{{"tree/a/a.go", lines(1500)}, {"tree/b/b.go", lines(501)}}, nil, ""},
		{"tests do not count", []File{{"tree/a/a_test.go", lines(3000)}}, nil, ""},
		{"nor do other trees", []File{{"treetop/a.go", lines(3000)}}, nil, ""},
		{"a larger one", []File{{"tree/a/a.go", lines(2500)}}, map[string]int{"tree/a": 2500}, ""},
		{"a larger one that grows", []File{{"tree/a/a.go", lines(2501)}}, map[string]int{"tree/a": 2500}, "it had 2500"},
		{"a larger one that is small by now", []File{{"tree/a/a.go", lines(2000)}}, map[string]int{"tree/a": 2500}, "take it off"},
		{"a larger one that is gone", nil, map[string]int{"tree/a": 2500}, "take it off"},
	} {
		breaches := checkSizes(tt.files, []string{"tree"}, tt.larger)
		switch {
		case tt.want == "" && len(breaches) > 0:
			t.Errorf("%s: %v: want no breach", tt.rule, breaches)
		case tt.want != "" && (len(breaches) != 1 || !strings.Contains(breaches[0].String(), tt.want)):
			t.Errorf("%s: %v: want %q", tt.rule, breaches, tt.want)
		}
	}
}

// outside are the modules that the floors say nothing about.
var outside = []string{"bench", "deploy", "examples", "internal/tools", "service/bench", "site"}

// module reads the Go source of the library and, in a checkout that has them, of
// its modules and the service.
func module(t *testing.T) (files []File) {
	t.Helper()
	root, err := filepath.Abs("../..")
	testrig.Must(t, err)
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root:
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			if slices.Contains(outside, filepath.ToSlash(rel)) || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
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
	testrig.Must(t, err)
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
		{"pure code does not import its neighbours", "limit/a.go", `import _ ` + ours + `internal/gate"`, "imports internal/gate, which is not below it"},
		{"but gate imports limit", "internal/gate/a.go", `import _ ` + ours + `limit"`, ""},
		{"shells do not import each other", "inflight/a.go", `import _ ` + ours + `rate"`, "imports rate, which is not below it"},
		{"but cache imports flight", "cache/a.go", `import _ ` + ours + `flight"`, ""},
		{"shells do not import edges", "inflight/a.go", `import _ ` + ours + `client"`, "imports client, which is not below it"},
		{"the library does not import the service", "httplimit/a.go", `import _ ` + ours + `service/internal/config"`, "imports service/internal/config, which is not below it"},
		{"nor do its modules", "metric/a.go", `import _ ` + ours + `service/internal/server"`, "imports service/internal/server, which is not below it"},
		{"the server does not import the proxy", "service/internal/server/a.go", `import _ ` + ours + `service/internal/proxy"`, "imports service/internal/proxy, which is not below it"},
		{"the proxy does not import the lab", "service/internal/proxy/a.go", `import _ ` + ours + `service/lab/internal/load"`, "imports service/lab/internal/load: weir does without the laboratory"},
		{"nor does its test", "service/internal/proxy/a_test.go", `import _ ` + ours + `service/lab/internal/load"`, "weir does without the laboratory"},
		{"weir draws no pictures", "service/internal/server/adminapi/a.go", `import _ "gonum.org/v1/plot/vg"`, "weir draws no pictures"},
		{"the lab does", "service/lab/internal/load/a.go", `import _ "gonum.org/v1/plot/vg"`, ""},
		{"the lab does not import edges", "service/lab/internal/load/a.go", `import _ ` + ours + `service/internal/proxy"`, "the lab stands on the shells"},
		{"but the demonstration shows the proxy", "service/lab/internal/demo/a.go", `import _ ` + ours + `service/internal/proxy"`, ""},
		{"the lab does not import its neighbours", "service/lab/internal/origin/a.go", `import _ ` + ours + `service/lab/internal/load"`, "imports service/lab/internal/load, which is not below it"},
		{"no package imports the binary", "service/lab/internal/demo/a.go", `import _ ` + ours + `service/cmd/weir"`, "imports service/cmd/weir, which is not below it"},
		{"the binary imports all", "service/cmd/weir/a.go", `import _ ` + ours + `service/internal/proxy"`, ""},
		{"but not the lab", "service/cmd/weir/a.go", `import _ ` + ours + `service/lab/internal/demo"`, "weir does without the laboratory"},
		{"which has a binary of its own", "service/lab/cmd/weirlab/a.go", `import _ ` + ours + `service/lab/internal/demo"`, ""},
		{"but a protocol imports deciders", "service/internal/transport/httpapi/a.go", `import _ ` + ours + `service/internal/server/decider"`, ""},
		{"and not the node", "service/internal/transport/httpapi/a.go", `import _ ` + ours + `service/internal/server"`, "imports service/internal/server, which no transport knows"},
		{"nor what serves its connections", "service/internal/transport/grpcapi/a.go", `import _ ` + ours + `service/internal/h2inline"`, "imports service/internal/h2inline, which no transport knows"},
		{"nor another protocol", "service/internal/transport/respapi/a.go", `import _ ` + ours + `service/internal/transport/httpapi"`, "imports service/internal/transport/httpapi, which is not below it"},
		{"everybody imports the words", "internal/gate/a.go", `import _ "github.com/weir-go/weir"`, ""},
		{"a test imports what it likes of ours", "internal/gate/a_test.go", `import _ ` + ours + `inflight"`, ""},

		{"the words do not lock", "weir.go", `import _ "sync"`, "imports sync, which its floor does without"},
		{"nor count atomically", "weir.go", `import _ "sync/atomic"`, "imports sync/atomic"},
		{"nor log", "weir.go", `import _ "log/slog"`, "imports log/slog"},
		{"but have contexts", "weir.go", `import _ "context"`, ""},
		{"pure code has none", "internal/gate/a.go", `import _ "context"`, "imports context"},
		{"and does not lock", "internal/gate/a.go", `import _ "sync"`, "imports sync"},
		{"nor listen", "service/lab/internal/pace/a.go", `import _ "net/http"`, "imports net/http"},
		{"nor open files", "service/lab/internal/trace/a.go", `import _ "os"`, "imports os"},
		{"its tests may", "service/lab/internal/trace/a_test.go", `import _ "os"`, ""},
		{"shells lock", "inflight/a.go", `import _ "sync"`, ""},
		{"but know no HTTP", "inflight/a.go", `import _ "net/http"`, "imports net/http"},
		{"and do not log", "inflight/a.go", `import _ "log/slog"`, "imports log/slog"},
		{"what deciders say is plain data", "service/internal/server/decider/a.go", `import _ ` + ours + `service/internal/config"`, "imports service/internal/config, which is not below it"},
		{"rules are found, not counted", "service/internal/server/rules/a.go", `import _ ` + ours + `service/internal/server/quota"`, "imports service/internal/server/quota, which is not below it"},
		{"limits are shared out without a node", "service/internal/server/assign/a.go", `import _ ` + ours + `service/internal/server"`, "imports service/internal/server, which is not below it"},
		{"nor does a node know that", "service/internal/server/node/a.go", `import _ ` + ours + `service/internal/server/assign"`, "imports service/internal/server/assign, which is not below it"},
		{"the server's core knows no network", "service/internal/server/a.go", `import _ "net/netip"`, "imports net/netip"},
		{"the simulator does not lock", "service/lab/internal/sim/a.go", `import _ "sync"`, "imports sync"},

		{"the library has no dependencies", "inflight/a.go", `import _ "golang.org/x/sync/semaphore"`, "the standard library only"},
		{"nor have its tests", "limit/a_test.go", `import _ "pgregory.net/rapid"`, "the standard library only"},
		{"a path like ours is not ours", "limit/a.go", `import _ "github.com/weir-go/weirdo"`, "the standard library only"},
		{"nor have edges", "httplimit/a.go", `import _ "github.com/dunglas/httpsfv"`, "the standard library only"},
		{"metrics come without gRPC", "metric/a.go", `import _ "google.golang.org/grpc/status"`, "imports google.golang.org/grpc/status, which"},
		{"also at one remove", "weirotel/a.go", `import _ ` + ours + `grpclimit"`, "imports grpclimit, which is not below it"},
		{"those of gRPC are apart", "metric/grpcmetric/a.go", `import _ ` + ours + `grpclimit"`, ""},
		{"the service has", "service/internal/proxy/a.go", `import _ "golang.org/x/net/netutil"`, ""},

		{"pure code starts no goroutine", "internal/gate/a.go", `func f() { go f() }`, "starts a goroutine"},
		{"nor does the simulator", "service/lab/internal/sim/a.go", `func f() { go f() }`, "starts a goroutine"},
		{"shells may", "inflight/a.go", `func f() { go f() }`, ""},
		{"pure code reads no clock", "internal/gate/a.go", `import "time"; var x = func() any { return time.Now() }`, "uses time.Now in pure code"},
		{"under no other name", "internal/gate/a.go", `import t "time"; var x t.Time`, `imports "time" under another name`},
		{"not even as a value", "internal/gate/a.go", `import "time"; func f() any { return time.Sleep }`, "uses time.Sleep in pure code"},
		{"nor behind a dot", "internal/gate/a.go", `import . "time"; func f() any { return Now() }`, `imports "time" under another name`},
		{"nor has it timers", "limit/a.go", `import "time"; func f() { time.AfterFunc(1, f) }`, "uses time.AfterFunc in pure code"},
		{"durations are fine", "limit/a.go", `import "time"; var x = 3 * time.Second`, ""},
		{"its tests have clocks", "limit/a_test.go", `import "time"; func f() any { return time.Now() }`, ""},
		{"pure code has no global chance", "service/lab/internal/pace/a.go", `import "math/rand/v2"; func f() any { return rand.IntN(2) }`, "uses the global source rand.IntN"},
		{"of either kind", "service/lab/internal/pace/a.go", `import "math/rand"; func f() any { return rand.Float64() }`, "uses the global source rand.Float64"},
		{"nor the machine's", "service/lab/internal/pace/a.go", `import _ "crypto/rand"`, "imports crypto/rand"},
		{"but takes a source", "service/lab/internal/pace/a.go", `import "math/rand/v2"; func f(r *rand.Rand) any { return rand.New(rand.NewPCG(r.Uint64(), 0)) }`, ""},

		{"shells do not read the wall clock", "rate/a.go", `import "time"; func f() int64 { return time.Now().UnixNano() }`, "reads the wall clock by UnixNano"},
		{"nor does the server", "service/internal/server/quota/a.go", `import "time"; func f(t time.Time) int64 { return t.Unix() }`, "reads the wall clock by Unix"},
		{"but for snapshots", "service/internal/server/snapshot/a.go", `import "time"; func f(t time.Time) int64 { return t.UnixNano() }`, ""},
		{"instants since 1970 are fine", "keyed/a.go", `import "time"; func f() time.Time { return time.Unix(0, 0) }`, ""},

		{"the library does nothing by itself", "inflight/a.go", `func init() {}`, "has an init function"},
		{"and shares no pool", "inflight/a.go", `import "sync"; var p sync.Pool`, "has a sync.Pool of the whole package"},
		{"no channel", "inflight/a.go", `var c = make(chan int)`, "has a channel of the whole package"},
		{"no timer", "inflight/a.go", `import "time"; var t = time.NewTimer(1)`, "of the whole package"},
		{"no epoch", "inflight/a.go", `import "time"; var t = time.Now()`, "of the whole package"},

		{"no function takes what its callers cannot name", "keyed/a.go", `import "github.com/weir-go/weir/internal/gate"; func F(gate.Request) {}`, "F mentions gate.Request of an internal package"},
		{"nor returns it", "keyed/a.go", `import "github.com/weir-go/weir/internal/gate"; func F() (_ []*gate.Request) { return }`, "F mentions gate.Request"},
		{"no method", "keyed/a.go", `import "github.com/weir-go/weir/internal/gate"; func (*T[K]) F() (r gate.Request) { return }`, "F mentions gate.Request"},
		{"no type", "keyed/a.go", `import "github.com/weir-go/weir/internal/gate"; type T = gate.Request`, "T mentions gate.Request"},
		{"no field", "keyed/a.go", `import "github.com/weir-go/weir/internal/gate"; type T struct{ R map[int]gate.Request }`, "T mentions gate.Request"},
		{"no variable", "keyed/a.go", `import g "github.com/weir-go/weir/internal/gate"; var V g.Request`, "V mentions g.Request"},
		{"but what is not exported", "keyed/a.go", `import "github.com/weir-go/weir/internal/gate"; type T struct{ r gate.Request }; func (t) F(gate.Request) {}; func f() gate.Request`, ""},
		{"and the values of constants", "keyed/a.go", `import "github.com/weir-go/weir/internal/keyedtable"; const C = keyedtable.MinMemory`, ""},
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

// The packages that make test runs without the race detector start no goroutines, and neither do their tests,
// except for tests that run side by side (Parallel) and share no value.
func TestPackagesWithoutRaceDetector(t *testing.T) {
	suite, err := os.ReadFile("../tools/suite")
	if errors.Is(err, fs.ErrNotExist) {
		return // the module alone, outside a checkout
	}
	testrig.Must(t, err)
	_, list, _ := strings.Cut(string(suite), "\npure=(\n")
	list, _, found := strings.Cut(list, "\n)\n")
	dirs := strings.Fields(list)
	if !found || len(dirs) < 20 {
		t.Fatalf("%q: the list was not read", dirs)
	}
	concurrent := []string{"sync", "sync/atomic", "net", "net/http", "os/exec", "testing/synctest", "golang.org/x/sync/errgroup"}
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Errorf("%s: %d files, %v", dir, len(names), err)
		}
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			testrig.Must(t, err)
			for _, i := range file.Imports {
				if path, _ := strconv.Unquote(i.Path.Value); slices.Contains(concurrent, path) {
					t.Errorf("%s imports %s: take %s off the list", name, path, dir)
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if _, starts := n.(*ast.GoStmt); starts {
					t.Errorf("%s starts a goroutine: take %s off the list", name, dir)
				}
				return true
			})
		}
	}
}
