package config_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc/filedoctest"
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
	filedoctest.Paths(t, config.Reference, want)
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
	filedoctest.Fields(t, config.Reference, filedoctest.Compile(t, config.Schema()), func(text []byte) error {
		_, err := config.Parse("a.yaml", text)
		return err
	}, withField)
}

// The schema accepts the files that we ship, and refuses what Load refuses as well.
func TestSchema(t *testing.T) {
	schema := filedoctest.Compile(t, config.Schema())
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
			if rules := regexp.MustCompile(`(?m)^rules:`); rules.MatchString(block[1]) && !strings.Contains(block[1], "weir proxy") {
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
		if err := schema.Check(t, text); err != nil {
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
		if err := schema.Check(t, text); err == nil {
			t.Errorf("%s: the schema accepts it", what)
		}
	}
}
