package scenario_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/goccy/go-yaml"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/filedoc/filedoctest"
	"github.com/weir-go/weir/service/lab/internal/scenario"
)

var update = flag.Bool("update", false, "write docs/sim-reference.md and the schema")

// The page agrees with the code: go test ./internal/scenario -update writes it.
func TestPage(t *testing.T) {
	const name = "../../../../docs/sim-reference.md"
	want := `# Fields of a scenario file

The files of ` + "`weirlab sim`" + ` are explained in [sim](sim.md). ` + "`weirlab sim --reference`" + ` prints this reference in a terminal, and
` + "`weirlab sim --schema`" + ` a JSON schema for editors. Each field is optional unless its default says that it must be given.
` + scenario.Markdown()
	if *update {
		testrig.Must(t, os.WriteFile(name, []byte(want), 0o644))
	}
	page, err := os.ReadFile(name)
	testrig.Must(t, err)
	if string(page) != want {
		t.Errorf("%s is not that of the code: go test ./internal/scenario -update", name)
	}
}

// The scenarios of docs/sim.md can be read.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/sim.md")
	testrig.Must(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("docs/sim.md has no scenario")
	}
	for _, block := range blocks {
		if _, err := scenario.Parse("sim.md", block[1]); err != nil {
			t.Error(err)
		}
	}
}

// Each field has a description and, unless it is a list, an example.
func TestEachFieldIsDescribed(t *testing.T) {
	n, paths := 0, map[string]bool{}
	for _, s := range scenario.Reference() {
		if s.Text == "" {
			t.Errorf("%s: has no description", s.Path)
		}
		for _, f := range s.Fields {
			n++
			if f.Text == "" || f.Kind == "" && f.Type == "" || f.Example == "" && !strings.Contains(f.Type, "list of") {
				t.Errorf("%s: must have tags help and example: %+v", f.Path, f.Field)
			}
			if again := paths[s.Path+f.Path]; again {
				t.Errorf("%s: is described twice", f.Path)
			}
			paths[s.Path+f.Path] = true
		}
	}
	if n < 120 {
		t.Errorf("%d fields: the structs were not read", n)
	}
}

// wrong are values that a field of a kind cannot have.
var wrong = map[filedoc.Kind][]string{
	filedoc.Number:   {"1.5", "many"},
	filedoc.Real:     {"many", "[1]"},
	filedoc.Enum:     {"other"},
	filedoc.Duration: {"10", "soon", "[1s]"},
	filedoc.Flag:     {"perhaps", "1"},
	filedoc.List:     {"search", "{a: b}"},
	filedoc.Reals:    {"1", "[many]"},
}

// Examples are true of the reader, and the schema knows them.
func TestReferenceIsTrue(t *testing.T) {
	schema := filedoctest.Compile(t, scenario.Schema())
	dir := t.TempDir()
	record(t, filepath.Join(dir, "run.rec"), recording.Record{Outcome: recording.Ended(weir.Success)})
	for _, s := range scenario.Reference() {
		for _, f := range s.Fields {
			try := func(value string, right bool) {
				t.Helper()
				text := withField(t, s.Path, f.Path, value)
				if _, err := scenario.Parse(filepath.Join(dir, "a.yaml"), []byte(text)); (err == nil) != right {
					t.Errorf("%s = %s: read: %v: want %v\n%s", f.Path, value, err, right, text)
				}
				if err := schema.Check(t, text); (err == nil) != right {
					t.Errorf("%s = %s: schema: %v: want %v\n%s", f.Path, value, err, right, text)
				}
			}
			if f.Example != "" {
				try(f.Example, true)
			}
			for _, value := range f.Values {
				try(value, true)
			}
			for _, value := range wrong[f.Kind] {
				try(value, false)
			}
			if f.Kind == filedoc.Number && f.Least >= 0 {
				try(fmt.Sprint(f.Least-1), false)
			}
			if f.Most > 0 {
				try(fmt.Sprint(f.Most+1), false)
			}
		}
	}
}

// record writes a recording.
func record(t *testing.T, name string, records ...recording.Record) {
	t.Helper()
	var b bytes.Buffer
	w := recording.NewWriter(&b, time.Unix(0, 0))
	_ = w.Name(3, "search")
	for _, r := range records {
		_ = w.Write(r)
	}
	testrig.Must(t, w.Flush())
	testrig.Must(t, os.WriteFile(name, b.Bytes(), 0o600))
}

// A tree is a file, as nested maps and lists.
type tree = map[string]any

// plain returns a file to which a field can be added.
func plain(fleet bool) tree {
	file := tree{"name": "a", "duration": "1m"}
	if fleet {
		file["fleet"] = tree{"leaves": 10}
		file["keys"] = []any{tree{"name": "api", "rate": 100, "burst": 10}}
		file["demand"] = []any{tree{"rate": 10}}
		return file
	}
	file["layers"] = []any{tree{"name": "service", "workers": 1, "service_time": "10ms"}}
	file["clients"] = []any{tree{"name": "users", "rate": 5}}
	return file
}

// needs are fields that must be beside others, in the same mapping: beside all of a mapping, by its path with a
// point at the end, and beside one field, by its path.
var needs = map[string]tree{
	"layers[].guard.":                  tree{"limit": "auto"},
	"layers[].guard.limit.":            tree{"name": "auto"},
	"layers[].guard.limit.n":           tree{"name": "fixed"},
	"layers[].guard.limit.backoff":     tree{"name": "aimd"},
	"layers[].guard.limit.slow_start.": tree{"idle": "1m"},
	"layers[].guard.rate.":             tree{"per_second": 10},
	"layers[].guard.rate.mute":         tree{"max_wait": "1s"},
	"layers[].service_time.cv":         tree{"distribution": "lognormal"},
	"layers[].classes.NAME.cv":         tree{"distribution": "lognormal"},
	"layers[].pause.":                  tree{"for": "1ms"},
	"layers[].flap.":                   tree{"every": "1m", "for": "1ms"},
	"layers[].failing_classes":         tree{"classes": tree{"search": "1ms"}},
	"layers[].bad_pods":                tree{"pods": 10},
	"clients[].burst.":                 tree{"every": "10s", "for": "1s"},
	"clients[].mix[].":                 tree{"share": 1},
	"clients[].timeout_cv":             tree{"timeout": "1s"},
	"demand[].":                        tree{"rate": 10},
	"demand[].on":                      tree{"off": "1s"},
	"demand[].off":                     tree{"on": "1s"},
	"network.delay.cv":                 tree{"distribution": "lognormal"},
	"keys[].":                          tree{"name": "api", "rate": 100, "burst": 10},
	"fleet.":                           tree{"leaves": 10},
	"faults[].":                        tree{"kind": "restart"},
	"variants[].":                      tree{"name": "b"},
}

// withField returns a file in which a field has a value, among what it needs.
func withField(t *testing.T, section, path, value string) string {
	t.Helper()
	fleet := section == "a scenario of a fleet"
	for _, top := range []string{"fleet.", "keys[]", "demand[]", "network", "faults[]"} {
		fleet = fleet || strings.HasPrefix(path, top)
	}
	file := plain(fleet)
	in := file
	parts := strings.Split(path, ".")
	way := ""
	for _, part := range parts[:len(parts)-1] {
		in, way = child(in, part), way+part+"."
		maps.Copy(in, needs[way])
	}
	maps.Copy(in, needs[path])
	layer, client := child(file, "layers[]"), child(file, "clients[]")
	switch {
	case fleet:
		delete(file, "layers")
		delete(file, "clients")
	case strings.HasSuffix(path, "classes"), strings.HasPrefix(path, "clients[].mix"):
		layer["classes"] = tree{"search": "1ms"}
		client["mix"] = []any{tree{"class": "search", "share": 1}}
		if strings.HasPrefix(path, "clients[].mix[]") {
			in = child(client, "mix[]")
		}
	case strings.HasSuffix(path, "changes[].bad_pods"):
		layer["pods"] = 10
	case strings.HasSuffix(path, "instances[].start"):
		guard := child(layer, "guard")
		guard["instances"] = append(guard["instances"].([]any), tree{"count": 2})
	case strings.HasSuffix(path, ".calls_of"):
		file["layers"] = append(file["layers"].([]any), tree{"name": "database", "workers": 1, "service_time": "1ms"})
	case path == "clients[].users", path == "clients[].recording":
		delete(client, "rate")
	}
	if strings.HasSuffix(path, ".distribution") && strings.HasSuffix(value, "normal") {
		in["cv"] = 0.25
	}
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		t.Fatalf("%s: %s: %v", path, value, err)
	}
	in[parts[len(parts)-1]] = v
	text, err := yaml.Marshal(file)
	testrig.Must(t, err)
	return string(text)
}

// child returns a mapping in a mapping, or the first one of a list in it. It is made if it is missing.
func child(in tree, part string) tree {
	name, list := strings.CutSuffix(part, "[]")
	if have, ok := in[name].([]any); ok {
		return have[0].(tree)
	}
	if have, ok := in[name].(tree); ok {
		return have
	}
	made := tree{}
	if in[name] = made; list {
		in[name] = []any{made}
	}
	return made
}

// Editors read the schema that the code makes. It accepts the scenarios that we ship.
func TestPublishedSchema(t *testing.T) {
	const root = "../../../../"
	var scenarios []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml", "*/*/*.yaml"} {
		found, err := filepath.Glob(root + "service/lab/scenarios/" + pattern)
		testrig.Must(t, err)
		for _, path := range found {
			scenarios = append(scenarios, strings.TrimPrefix(path, root))
		}
	}
	if len(scenarios) < 20 {
		t.Errorf("%d scenarios", len(scenarios))
	}
	filedoctest.Published(t, root, "scenario.schema.json", scenario.Schema(), *update, scenarios...)
}
