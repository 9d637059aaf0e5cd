// Package filedoctest tests the description of a file's fields against the reader of the file and the
// JSON schema.
package filedoctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-go/weir/service/internal/filedoc"
)

// A Schema is a JSON schema that is ready for use.
type Schema struct{ *jsonschema.Schema }

// Compile compiles a schema.
func Compile(t *testing.T, schema map[string]any) Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return Schema{compiled}
}

// Check checks a YAML file as an editor does.
func (s Schema) Check(t *testing.T, text string) error {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// Published checks that a file in the folder schema of the repository, of which root is the path, has a schema, and that
// the first line of each example names the file, and its values fit. If update is set, it writes the file.
func Published(t *testing.T, root, name string, schema map[string]any, update bool, examples ...string) {
	t.Helper()
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "schema", name)
	if update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s: %v: is not what the code says: run this test with -update", path, err)
	}
	compiled := Compile(t, schema)
	for _, example := range examples {
		text, err := os.ReadFile(filepath.Join(root, example))
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if want := "# yaml-language-server: $schema=https://weir-go.github.io/weir/schema/" + name; first != want {
			t.Errorf("%s begins with %q: want %q", example, first, want)
		}
		if err := compiled.Check(t, string(text)); err != nil {
			t.Errorf("%s: %v", example, err)
		}
	}
}

// values are texts that a field of a kind may have, or not.
var values = map[filedoc.Kind]map[string]bool{
	filedoc.Number:   {"1.5": false, "many": false},
	filedoc.Enum:     {"other": false},
	filedoc.Share:    {"0": true, "0.999": true, "1": false, "-0.1": false, "half": false},
	filedoc.Duration: {"90s": true, "1m30s": true, "2500ms": true, "10": false, "soon": false, "[1s]": false},
	filedoc.Size:     {"64KiB": true, "1000000": true, "1GiB": true, "1MB": false, "1.5MiB": false, "much": false},
	filedoc.Texts:    {"{a: b}": false},
	filedoc.Rate: {
		"100/s": true, "5/minute": true, "100/90s": true, "100000/30d": true, "100/1m30s": true, "10 / h": true, "0/s": true,
		"5": false, "5/x": false, "fast": false, "/s": false, "1.5/s": false,
	},
}

// Paths checks that a reference has each path of a file once, with a text and an example. It empties
// paths.
func Paths(t *testing.T, reference []filedoc.Field, paths map[string]bool) {
	t.Helper()
	for _, f := range reference {
		if !paths[f.Path] {
			t.Errorf("%s: there is no such key, or it is there twice", f.Path)
		}
		delete(paths, f.Path)
		if f.Text == "" || f.Kind != filedoc.List && f.Example == "" {
			t.Errorf("%s: must have a text and an example", f.Path)
		}
	}
	for path := range paths {
		t.Errorf("%s: is not in the reference", path)
	}
}

// Fields checks that the reader and the schema agree with the examples, the bounds and the kinds of
// fields. The function file returns a file in which a field has a value, among what it needs.
func Fields(t *testing.T, fields []filedoc.Field, schema Schema, parse func(text []byte) error, file func(path, value string) string) {
	t.Helper()
	for _, f := range fields {
		try := func(value string, right bool) {
			t.Helper()
			text := file(f.Path, value)
			if err := parse([]byte(text)); (err == nil) != right {
				t.Errorf("%s: %s: read: %v: want %v", f.Path, text, err, right)
			}
			if err := schema.Check(t, text); (err == nil) != right {
				t.Errorf("%s: %s: schema: %v: want %v", f.Path, text, err, right)
			}
		}
		if f.Example != "" {
			try(f.Example, true)
		}
		for _, v := range f.Values {
			try(v, true)
		}
		if f.Kind == filedoc.Number {
			try(fmt.Sprint(max(f.Least, 1)), true)
			try(fmt.Sprint(f.Most), true)
			try(fmt.Sprint(f.Least-1), false)
			try(fmt.Sprint(f.Most+1), false)
		}
		for value, right := range values[f.Kind] {
			try(value, right)
		}
	}
}
