package proxyrule_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/filedoc/filedoctest"
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
	filedoctest.Paths(t, proxyrule.Reference, want)
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
		rate := "rate: 1/s"
		if name == "limit" {
			rate = field
		}
		return "rules: [" + needs("name: a", rate, "by: address") + "]\n"
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
	filedoctest.Fields(t, proxyrule.Reference, filedoctest.Compile(t, proxyrule.Schema()), func(text []byte) error {
		_, err := proxyrule.Parse("a.yaml", text)
		return err
	}, withField)
}

// The schema accepts the file that we ship, and refuses what a file must not lack.
func TestSchema(t *testing.T) {
	schema := filedoctest.Compile(t, proxyrule.Schema())
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
	if err := schema.Check(t, string(text)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"rules: [{name: a}]", "rules: [{rate: 1/s}]", "rules: [{name: a, rate: 1/s, limit: 1}]", "classes: [{name: a}]", "classes: [{routes: /}]", "total: {}", "priority: {}", "tenants: {}", "deadline: {}", "other: 1"} {
		if schema.Check(t, bad) == nil {
			t.Errorf("%s: the schema accepts it", bad)
		}
	}
}
