package proxyrule_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// The reference has every key of a file, and nothing else.
func TestReferenceIsWhole(t *testing.T) {
	want := map[string]bool{}
	var keys func(of reflect.Type, in string)
	keys = func(of reflect.Type, in string) {
		for i := range of.NumField() {
			name, option, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
			kind := of.Field(i).Type
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			switch {
			case option == "inline":
				keys(kind, in)
				continue
			case name == "-":
				continue
			case kind == reflect.TypeFor[[]proxyrule.Rule](), kind == reflect.TypeFor[[]proxyrule.Class]():
				keys(kind.Elem(), in+name+"[].")
			case kind.Kind() == reflect.Struct && kind != reflect.TypeFor[proxyrule.Limit]() && kind.PkgPath() == reflect.TypeFor[proxyrule.Rules]().PkgPath():
				keys(kind, in+name+".")
			}
			want[in+name] = true
		}
	}
	keys(reflect.TypeFor[proxyrule.Rules](), "")
	delete(want, "default.name")
	delete(want, "default.routes")
	for _, f := range proxyrule.Reference {
		if !want[f.Path] {
			t.Errorf("%s: there is no such key, or it is there twice", f.Path)
		}
		delete(want, f.Path)
		if f.Text == "" || f.Kind != filedoc.List && f.Example == "" {
			t.Errorf("%s: must have a text and an example", f.Path)
		}
	}
	for path := range want {
		t.Errorf("%s: is not in the reference", path)
	}
}

// withField returns a file in which a field has a value, among what it needs.
func withField(path, value string) string {
	in, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		in, name = path[:i], path[i+1:]
	}
	field := name + ": " + value
	needs := func(fields ...string) string {
		all := []string{field}
		for _, f := range fields {
			if !strings.HasPrefix(f, name+":") {
				all = append(all, f)
			}
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	switch in {
	case "":
		return field + "\n"
	case "rules[]":
		if name == "except" || name == "routes" {
			return "rules: [" + needs("name: a", "rate: 1/s") + "]\n"
		}
		return "rules: [" + needs("name: a", "rate: 1/s", "by: address") + "]\n"
	case "classes[]", "total", "default":
		limit := "limit: auto"
		of := needs(limit)
		if in == "classes[]" {
			return "classes: [" + needs(limit, "name: a", "routes: /a") + "]\n"
		}
		return in + ": " + of + "\n"
	case "classes[].cache", "default.cache":
		cache := "cache: " + needs("memory: 1024GiB")
		if in == "default.cache" {
			return "default: {" + cache + "}\n"
		}
		return "classes: [{name: a, routes: /a, " + cache + "}]\n"
	case "tenants":
		return "tenants: " + needs("by: address") + "\n"
	}
	return in + ": " + needs("header: A") + "\n"
}

// Examples and bounds are true of the reader, and the schema knows them.
func TestReferenceIsTrue(t *testing.T) {
	schema := compiled(t)
	try := func(f filedoc.Field, value string, right bool) {
		t.Helper()
		text := withField(f.Path, value)
		if _, err := proxyrule.Parse("a.yaml", []byte(text)); (err == nil) != right {
			t.Errorf("%s: %s: read: %v: want %v", f.Path, text, err, right)
		}
		if err := valid(t, schema, text); (err == nil) != right {
			t.Errorf("%s: %s: schema: %v: want %v", f.Path, text, err, right)
		}
	}
	for _, f := range proxyrule.Reference {
		if f.Example != "" {
			try(f, f.Example, true)
		}
		for _, v := range f.Values {
			try(f, v, true)
		}
		switch f.Kind {
		case filedoc.Number:
			try(f, fmt.Sprint(max(f.Least, 1)), true)
			try(f, fmt.Sprint(f.Most), true)
			try(f, fmt.Sprint(f.Least-1), false)
			try(f, fmt.Sprint(f.Most+1), false)
			try(f, "1.5", false)
			try(f, "many", false)
		case filedoc.Enum:
			try(f, "other", false)
		case filedoc.Duration:
			for value, right := range map[string]bool{"90s": true, "1m30s": true, "2500ms": true, "10": false, "soon": false, "[1s]": false} {
				try(f, value, right)
			}
		case filedoc.Size:
			for value, right := range map[string]bool{"64KiB": true, "1000000": true, "1MB": false, "1.5MiB": false, "much": false} {
				try(f, value, right)
			}
		case filedoc.Texts:
			try(f, "{a: b}", false)
		}
	}
}

// The schema accepts the file that we ship, and refuses what a file must not lack.
func TestSchema(t *testing.T) {
	schema := compiled(t)
	const example = "../../../deploy/proxy.yaml"
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proxyrule.Parse(example, text); err != nil {
		t.Error(err)
	}
	if !proxyrule.Recognize(example, text) {
		t.Errorf("%s: is not recognized", example)
	}
	if err := valid(t, schema, string(text)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"rules: [{name: a}]", "rules: [{rate: 1/s}]", "classes: [{name: a}]", "classes: [{routes: /}]", "total: {}", "priority: {}", "tenants: {}", "deadline: {}", "other: 1"} {
		if valid(t, schema, bad) == nil {
			t.Errorf("%s: the schema accepts it", bad)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(proxyrule.Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func valid(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}
