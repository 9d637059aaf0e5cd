package config_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc"
)

// The reference has every key of a file, and nothing else.
func TestReferenceIsWhole(t *testing.T) {
	want := map[string]bool{}
	var keys func(of reflect.Type, in string)
	keys = func(of reflect.Type, in string) {
		for i := range of.NumField() {
			f := of.Field(i)
			name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			path, kind := in+name, f.Type
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			switch {
			case option == "inline":
				keys(kind, in)
				continue
			case name == "-":
				continue
			case kind == reflect.TypeFor[[]config.Rule]():
				keys(kind.Elem(), path+"[].")
			case kind == reflect.TypeFor[config.Quota](), kind == reflect.TypeFor[config.Concurrency]():
				keys(kind, path+".")
			}
			want[path] = true
		}
	}
	keys(reflect.TypeFor[config.Rules](), "")
	for _, f := range config.Reference {
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
	name := path[strings.LastIndex(path, ".")+1:]
	pattern, rate, lease, candidate := "key: a", ", rate: 100/s", "", ""
	own, unit := ", "+name+": "+value, "s"
	switch name {
	case "zone":
		own += ", algorithm: calendar"
		fallthrough
	case "algorithm":
		rate, unit = ", rate: 100/d", "d"
	}
	switch {
	case !strings.Contains(path, "."):
		return name + ": " + value + "\nrules: []\n"
	case name == "domain":
		pattern = "entries: {a: b}"
	case name == "key" || name == "glob" || name == "regex" || name == "entries":
		pattern, own = name+": "+value, ""
	case strings.HasPrefix(path, "rules[].concurrency."):
		others := map[string]string{"limit": "ttl: 1s", "ttl": "limit: 1", "min": "limit: auto, max: 1000000"}
		lease, own = ", concurrency: {"+cmp.Or(others[name], "limit: auto, ttl: 1s")+own+"}", ""
	case path == "rules[].candidate.rate":
		candidate, own = ", candidate: {rate: "+value+"}", ""
	case strings.HasPrefix(path, "rules[].candidate."):
		own = ", candidate: {rate: 100/" + unit + own + "}"
	case name == "memory":
		pattern = "glob: a"
	case name == "rate":
		rate, own = ", rate: "+value, ""
	}
	return "rules:\n  - {" + pattern + rate + lease + candidate + own + "}\n"
}

// Examples and bounds are true of the reader, and the schema knows them.
func TestReferenceIsTrue(t *testing.T) {
	schema := compiled(t)
	try := func(f filedoc.Field, value string, right bool) {
		t.Helper()
		text := withField(f.Path, value)
		if _, err := config.Parse("a.yaml", []byte(text)); (err == nil) != right {
			t.Errorf("%s: %s: read: %v: want %v", f.Path, value, err, right)
		}
		if err := valid(t, schema, text); (err == nil) != right {
			t.Errorf("%s: %s: schema: %v: want %v", f.Path, value, err, right)
		}
	}
	for _, f := range config.Reference {
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
			for value, right := range map[string]bool{"64KiB": true, "1000000": true, "1GiB": true, "1MB": false, "1.5MiB": false, "much": false} {
				try(f, value, right)
			}
		case filedoc.Rate:
			for value, right := range map[string]bool{
				"100/s": true, "5/minute": true, "100/90s": true, "100000/30d": true, "100/1m30s": true, "10 / h": true, "0/s": true,
				"5": false, "5/x": false, "fast": false, "/s": false, "1.5/s": false,
			} {
				try(f, value, right)
			}
		}
	}
}

// The schema accepts the files that we ship, and refuses what Load refuses as well.
func TestSchema(t *testing.T) {
	schema := compiled(t)
	docs, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	files := map[string]string{"example": example}
	shipped := append(docs, "../../../deploy/rules/rules.yaml", "../../../README.md")
	for _, name := range shipped {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".yaml") {
			files[name] = string(text)
			continue
		}
		for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if regexp.MustCompile(`(?m)^rules:`).MatchString(block[1]) {
				files[fmt.Sprint(name, " ", i)] = block[1]
			}
		}
	}
	if len(files) < 3 {
		t.Errorf("%d files with rules", len(files))
	}
	for name, text := range files {
		if _, err := config.Parse(name, []byte(text)); err != nil {
			t.Error(err)
		}
		if err := valid(t, schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for what, text := range map[string]string{
		"no rules":            "apply: all",
		"an unknown key":      "rules: [{key: a, rate: 1/s, brust: 5}]",
		"one at the top":      "rules: []\nrulse: []",
		"one in concurrency":  "rules: [{key: a, concurrency: {limit: 1, tll: 5s}}]",
		"no pattern":          "rules: [{rate: 1/s}]",
		"neither of both":     "rules: [{key: a}]",
		"a list for a text":   "rules: [{key: [a], rate: 1/s}]",
		"no entries":          "rules: [{entries: {}, rate: 1/s}]",
		"a list for entries":  "rules: [{entries: [a], rate: 1/s}]",
		"a list for a value":  "rules: [{entries: {a: [b]}, rate: 1/s}]",
		"a domain of a key":   "rules: [{key: a, domain: b, rate: 1/s}]",
		"rules in no list":    "rules: {key: a, rate: 1/s}",
		"a candidate of none": "rules: [{key: a, rate: 1/s, candidate: 5/s}]",
	} {
		if _, err := config.Parse("a.yaml", []byte(text)); err == nil {
			t.Errorf("%s: it is read", what)
		}
		if err := valid(t, schema, text); err == nil {
			t.Errorf("%s: the schema accepts it", what)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(config.Schema())
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
	schema, err := c.Compile("rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// valid checks a file as an editor does.
func valid(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	as, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(as))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}
