package strictyaml_test

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/weir-go/weir/service/internal/strictyaml"
)

type inner struct {
	Count int `yaml:"count"`
	Size  int `json:"size"`
}

type colour string

var _ encoding.TextUnmarshaler = (*colour)(nil)

func (c *colour) UnmarshalText(text []byte) error {
	if *c = colour(text); *c != "red" {
		return fmt.Errorf("%q: want red", text)
	}
	return nil
}

type outer struct {
	Text   string `yaml:"text"`
	inner  `yaml:",inline"`
	Yes    bool             `yaml:"yes"`
	Ratio  float64          `yaml:"ratio"`
	Seed   uint64           `yaml:"seed"`
	Small  int8             `yaml:"small"`
	Time   time.Duration    `yaml:"time"`
	Colour colour           `yaml:"colour"`
	Maybe  *inner           `yaml:"maybe"`
	List   []inner          `yaml:"list"`
	Map    map[string]inner `yaml:"map"`
	Func   func()           `yaml:"func"`
	Hidden int              `yaml:"-"`
	Silent int
}

func read(text string, values int) (v outer, err error) {
	f, err := strictyaml.Parse("a.yaml", []byte(text), strictyaml.Bounds{Bytes: 1 << 20, Values: values})
	if err != nil {
		return v, err
	}
	f.Decode(f.Body, reflect.ValueOf(&v).Elem(), "")
	return v, f.Err()
}

func TestDecode(t *testing.T) {
	for rule, tt := range map[string]struct {
		text string
		want outer
	}{
		"each kind": {"text: a\nyes: true\nratio: 1.5\nseed: 18446744073709551615\nsmall: -128\ntime: 1m\ncolour: red\n",
			outer{Text: "a", Yes: true, Ratio: 1.5, Seed: 1<<64 - 1, Small: -128, Time: time.Minute, Colour: "red"}},
		"inline fields, by either tag":                     {"count: 1_000\nsize: 2\n", outer{inner: inner{1000, 2}}},
		"merged fields of a field are replaced as a whole": {"list: [&a {count: 1}]\n<<: &b {maybe: {size: 1, count: 1}}\nmaybe: {count: 2}\n", outer{Maybe: &inner{Count: 2}, List: []inner{{Count: 1}}}},
		"a pointer, a list, a mapping":                     {"maybe: {count: 1}\nlist: [{count: 2}]\nmap: {a: {count: 3}}\n", outer{Maybe: &inner{Count: 1}, List: []inner{{Count: 2}}, Map: map[string]inner{"a": {Count: 3}}}},
		"null for a pointer":                               {"maybe: null\n", outer{}},
		"a number as a text is unchanged":                  {"text: 1.10\n", outer{Text: "1.10"}},
		"an alias of an earlier value":                     {"list: [&a {count: 1}]\nmaybe: *a\n", outer{Maybe: &inner{Count: 1}, List: []inner{{Count: 1}}}},
		"tags mean nothing":                                {"text: !!str a\n", outer{Text: "a"}},
		"an alias is what its name meant when it came":     {"map: {a: &x {count: 1}, b: &y {<<: *x}, c: &x {<<: *y, size: 2}, d: *y}", outer{Map: map[string]inner{"a": {Count: 1}, "b": {Count: 1}, "c": {1, 2}, "d": {Count: 1}}}},
		"a block of text":                                  {"text: |\n  a\n  b\n", outer{Text: "a\nb\n"}},
		"a text that looks like octal":                     {"text: 010\n", outer{Text: "010"}},
		"a merge, below the own fields":                    {"map: {a: &a {count: 1, size: 2}, b: {count: 3, <<: *a}}\n", outer{Map: map[string]inner{"a": {1, 2}, "b": {3, 2}}}},
		"a merge of a merge":                               {"map: {a: &a {count: 1}, b: &b {<<: *a, size: 2}, c: {<<: *b}}\n", outer{Map: map[string]inner{"a": {1, 0}, "b": {1, 2}, "c": {1, 2}}}},
		"of several the first":                             {"list: [&a {count: 1}, &b {count: 2, size: 2}, {<<: [*a, *b]}]\n", outer{List: []inner{{1, 0}, {2, 2}, {1, 2}}}},
		"a merge at the top, in place":                     {"<<: {count: 1}\nsize: 2\n", outer{inner: inner{1, 2}}},
		"<< in quotes is a name":                           {"map: {\"<<\": {count: 1}}\n", outer{Map: map[string]inner{"<<": {1, 0}}}},
	} {
		if got, err := read(tt.text, 100); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v: want %+v", rule, got, err, tt.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for rule, tt := range map[string]struct{ text, want string }{
		"too small for its kind":           {"small: 128", "a.yaml:1:8: small = 128: want a number of fewer digits"},
		"a block is no number":             {"small: |\n  1\n", "a.yaml:1:8: small = \"1\\n\": want a whole number"},
		"not a ratio":                      {"ratio: half", "a.yaml:1:8: ratio = half: want a number"},
		"less than nothing":                {"seed: -1", "a.yaml:1:7: seed = -1: want a whole number >= 0"},
		"more than its kind holds":         {"seed: 18446744073709551616", "a.yaml:1:7: seed = 18446744073709551616: want a whole number <= 18446744073709551615"},
		"yes is a text":                    {"yes: yes", "a.yaml:1:6: yes = yes: want true or false"},
		"the error of UnmarshalText":       {"colour: blue", `a.yaml:1:9: colour = "blue": want red`},
		"a type that a file cannot set":    {"func: a", "a.yaml:1:7: func = a: want nothing: it cannot be set in a file"},
		"a field with the tag -":           {"Hidden: 1", "a.yaml:1:1: Hidden: unknown field; known are colour, count, func, list, map, maybe, ratio, seed, size, small, text, time, yes"},
		"a field without a tag":            {"Silent: 1", "a.yaml:1:1: Silent: unknown field; known are colour, count, func, list, map, maybe, ratio, seed, size, small, text, time, yes"},
		"a key of a mapping given twice":   {"map: {a: {}, a: {}}", `a.yaml:1:14: not YAML: mapping key "a" already defined at [1:7]`},
		"a field given twice":              {"count: 1\nsize: x\ncount: 1", `a.yaml:3:1: not YAML: mapping key "count" already defined at [1:1]`},
		"letters that are swapped":         {"cuonts: 1", "a.yaml:1:1: cuonts: unknown field; known are colour, count, func, list, map, maybe, ratio, seed, size, small, text, time, yes: did you mean count?"},
		"too many values":                  {"list: [{count: 1}, {count: 2}]", "a.yaml:1:28: list[1].count: more than 5 values, counting values that aliases repeat"},
		"too many by aliases":              {"list: [&a {count: 1}, *a, *a]", "a.yaml:1:19: list[1].count: more than 5 values, counting values that aliases repeat"},
		"a long value is cut":              {"time: " + strings.Repeat("x", 100), "a.yaml:1:7: time = " + strings.Repeat("x", 64) + "...: want a duration with its unit, such as 5ms, 2.5s or 10m"},
		"a long name is cut":               {strings.Repeat("x", 2000) + ": 1", "a.yaml:1:1: " + strings.Repeat("x", 1000) + "..."},
		"what is not for a terminal":       {`time: "\e[0m\u202e"`, `a.yaml:1:7: time = "\x1b[0m\u202e": want a duration with its unit, such as 5ms, 2.5s or 10m`},
		"bytes that are not UTF-8":         {"text: é\n  é\xe9", "a.yaml:2:4: not UTF-8: save it in that encoding"},
		"8 or 10":                          {"size: 010", "a.yaml:1:7: size = 010: want a number that does not begin with 0, which means 8 in YAML 1.1 for 010"},
		"8.5 or 10.5":                      {"ratio: 010.5", "a.yaml:1:8: ratio = 010.5: want a number that does not begin with 0, which means 8 in YAML 1.1 for 010"},
		"a text in base 64":                {"text: !!binary aGk=", "a.yaml:1:7: !!binary: is not supported: write the text itself"},
		"a merge of a text":                {"<<: a", "a.yaml:1:5: <<: want fields, as in name: value; got a"},
		"a merge of nothing":               {"<<:\nsize: 1", "a.yaml:1:4: <<: want fields, as in name: value; got nothing"},
		"a merge of an unknown alias":      {"<<: *a", "a.yaml:1:5: *a: there is no &a before it; if it is a text, quote it"},
		"an alias inside of its node":      {"list: [&a {count: *a}]", "a.yaml:1:19: *a: is inside of &a"},
		"a merge of itself":                {"map: {a: &a {}, b: &a {<<: *a}}", "a.yaml:1:28: *a: is inside of &a"},
		"too many by merges":               {"map: {a: &a {}, b: &b {<<: [*a, *a, *a]}}", "a.yaml:1:33: map.b.<<: more than 5 values, counting values that aliases repeat"},
		"an alias of nothing, among other": {"text: *b\nsmall: c", "a.yaml:1:7: *b: there is no &b before it; if it is a text, quote it\na.yaml:2:8: small = c: want a whole number"},
	} {
		if _, err := read(tt.text, 5); err == nil || err.Error() != tt.want {
			t.Errorf("%s:\n%v: want\n%s", rule, err, tt.want)
		}
	}
}

// An error that is found after reading has the position of its field or, if the field
// is missing, of the value around it.
func TestReport(t *testing.T) {
	f, err := strictyaml.Parse("a.yaml", []byte("text: a\nlist:\n  - count: 1\n  - size: x\n"), strictyaml.Bounds{Bytes: 100, Values: 100})
	testrig.Must(t, err)
	var v outer
	f.Decode(f.Body, reflect.ValueOf(&v).Elem(), "")
	for path, wrong := range map[string]bool{"list[1].size": true, "list[1]": true, "list": true, "list[0]": false, "lis": false, "text": false} {
		if f.Wrong(path) != wrong {
			t.Errorf("%s is wrong: %t", path, !wrong)
		}
	}
	f.Report(f.Where("list[0].size"), "list[0].size", ": must be given")
	f.Report(f.Where("text"), "text", " = %q: must be b", v.Text)
	want := "a.yaml:1:7: text = \"a\": must be b\na.yaml:3:5: list[0].size: must be given\na.yaml:4:11: list[1].size = x: want a whole number"
	if err := f.Err(); err.Error() != want {
		t.Errorf("%v: want\n%s", err, want)
	}
	e, ok := errors.AsType[*strictyaml.Error](f.Err())
	if !ok || e.File != "a.yaml" || e.Line != 1 || e.Column != 7 || e.Path != "text" {
		t.Errorf("%+v", e)
	}
	if f.Reset(); f.Err() != nil || f.Wrong("list") {
		t.Errorf("%v after Reset", f.Err())
	}
}

func TestHas(t *testing.T) {
	for text, want := range map[string]bool{"a: 1": true, "{a: 1, b: 2}": true, "b: {a: 1}": false, "[a]": false, "a": false, "": false} {
		f, err := strictyaml.Parse("a.yaml", []byte(text), strictyaml.Bounds{Bytes: 100})
		if err != nil || f.Has("a") != want {
			t.Errorf("%q: %t, %v", text, !want, err)
		}
	}
}

// A type may have its own decoder.
func TestSpecial(t *testing.T) {
	f, err := strictyaml.Parse("a.yaml", []byte("list: [7, {count: 8}]"), strictyaml.Bounds{Bytes: 100, Values: 100})
	testrig.Must(t, err)
	f.Special = map[reflect.Type]func(ast.Node, reflect.Value, string){reflect.TypeFor[inner](): func(n ast.Node, v reflect.Value, path string) {
		count, _ := f.Field(v, "count")
		f.Decode(n, count, path)
	}}
	var v outer
	f.Decode(f.Body, reflect.ValueOf(&v).Elem(), "")
	if want := "a.yaml:1:11: list[1]: want a whole number; got fields"; v.List[0].Count != 7 || f.Err().Error() != want {
		t.Errorf("%+v, %v: want %s", v, f.Err(), want)
	}
}

// With YAML11, values mean what they mean to gopkg.in/yaml.v2.
func TestYAML11(t *testing.T) {
	for rule, tt := range map[string]struct {
		text string
		want outer
	}{
		"octal and other bases":                   {"list: [{size: 010}, {size: 0o10}, {size: 0x10}, {size: 0b11}, {size: 1_000}, {size: +5}]\nseed: 010\n", outer{List: []inner{{Size: 8}, {Size: 8}, {Size: 16}, {Size: 3}, {Size: 1000}, {Size: 5}}, Seed: 8}},
		"yes":                                     {"yes: Yes\n", outer{Yes: true}},
		"off":                                     {"yes: OFF\n", outer{}},
		"texts are unchanged":                     {"text: yes\n", outer{Text: "yes"}},
		"a merge replaces what is before it":      {"count: 1\nsize: 2\n<<: {count: 3}\n", outer{inner: inner{3, 2}}},
		"what is behind it replaces it":           {"<<: {count: 3}\ncount: 1\nsize: 2\n", outer{inner: inner{1, 2}}},
		"of several the first":                    {"<<: [{count: 1}, {count: 2, size: 2}]\n", outer{inner: inner{1, 2}}},
		"a struct is added to the merged one":     {"<<: {maybe: {count: 1, size: 2}}\nmaybe: {count: 3}\n", outer{Maybe: &inner{3, 2}}},
		"a list replaces the merged one":          {"<<: {list: [{count: 1, size: 2}]}\nlist: [{count: 3}]\n", outer{List: []inner{{Count: 3}}}},
		"null replaces a merged value":            {"<<: {maybe: {count: 1}, size: 4}\nmaybe: ~\nsize:\n", outer{}},
		"an alias is not changed by what follows": {"list: [&a {count: 1}]\n<<: {maybe: *a}\nmaybe: {count: 3}\n", outer{List: []inner{{Count: 1}}, Maybe: &inner{Count: 3}}},
	} {
		f, err := strictyaml.Parse("a.yaml", []byte(tt.text), strictyaml.Bounds{Bytes: 1 << 20, Values: 100})
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		f.Null, f.YAML11 = true, true
		var got outer
		f.Decode(f.Body, reflect.ValueOf(&got).Elem(), "")
		if err := f.Err(); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v: want %+v", rule, got, err, tt.want)
		}
	}
}

// Merges that double the fields at each level end at the bound of values.
func TestMergesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("map:\n  a0: &a0 {}\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  a%d: &a%[1]d {<<: [*a%[2]d, *a%[2]d]}\n", i+1, i)
	}
	for _, yaml11 := range []bool{false, true} {
		f, err := strictyaml.Parse("a.yaml", []byte(b.String()), strictyaml.Bounds{Bytes: 1 << 20, Values: 10_000})
		testrig.Must(t, err)
		f.YAML11 = yaml11
		var got outer
		f.Decode(f.Body, reflect.ValueOf(&got).Elem(), "")
		if err := f.Err(); err == nil || !strings.Contains(err.Error(), "more than 10000 values") {
			t.Errorf("%t: %v", yaml11, err)
		}
	}
}

// goccy's own strict mode takes these values; if it rejects them all one day, it
// replaces this package.
func TestStricterThanStrictMode(t *testing.T) {
	for _, text := range []string{"size: 1.5", "size: '1'", "size: 010", "ratio: '1.5'", "text: ~", "list: [~]"} {
		var v struct {
			Size  int     `yaml:"size"`
			Ratio float64 `yaml:"ratio"`
			Text  string  `yaml:"text"`
			List  []inner `yaml:"list"`
		}
		strict := yaml.UnmarshalWithOptions([]byte(text), &v, yaml.Strict())
		if _, err := read(text, 10); strict != nil || err == nil && v.Size != 8 {
			t.Errorf("%s: strict mode: %v; this package: %v", text, strict, err)
		}
	}
}
