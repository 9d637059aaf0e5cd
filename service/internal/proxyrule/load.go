package proxyrule

import (
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// Bounds of a file.
const (
	maxBytes  = 1 << 20
	maxValues = 100_000 // with all aliases put in
)

// Load reads a file. An error of the content joins an error for each invalid field:
// file:line:column, the field, its value, and the condition.
func Load(path string) (*Rules, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Read returns the content of a file, or its beginning if it is too large.
func Read(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory: want a file", path)
	}
	return inputfile.Read(path, maxBytes+1)
}

// Parse reads the content of a file as Load does; name is for errors.
func Parse(name string, text []byte) (*Rules, error) {
	file, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	r := &Rules{Hash: rulefile.Hash(text)}
	file.Decode(file.Body, reflect.ValueOf(r).Elem(), "")
	c := checker{file, r}
	c.rules()
	if err := file.Err(); err != nil {
		return nil, err
	}
	r.Warnings = c.warnings()
	return r, nil
}

func parse(name string, text []byte) (*strictyaml.File, error) {
	file, err := strictyaml.Parse(name, text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
	switch {
	case err != nil:
		return nil, err
	case file.Body == nil:
		return nil, file.Errorf(nil, "", "want one document, with rules: or classes:")
	}
	file.Special = map[reflect.Type]func(ast.Node, reflect.Value, string){
		reflect.TypeFor[Keys]():     oneOrMore[Key](file),
		reflect.TypeFor[Texts]():    oneOrMore[string](file),
		reflect.TypeFor[Networks](): oneOrMore[Network](file),
	}
	return file, nil
}

// oneOrMore returns a decoder for a list, or a single item without the list.
func oneOrMore[T any](file *strictyaml.File) func(ast.Node, reflect.Value, string) {
	return func(n ast.Node, v reflect.Value, path string) {
		list := v.Addr().Convert(reflect.TypeFor[*[]T]()).Elem()
		if _, ok := n.(*ast.SequenceNode); ok {
			file.Decode(n, list, path)
			return
		}
		list.Set(reflect.MakeSlice(list.Type(), 1, 1))
		file.Decode(n, list.Index(0), path)
	}
}

// Recognize reports whether a text is a file of weir proxy rather than one of weir serve:
// it has a field that only files of weir proxy have, or rates and no key.
func Recognize(name string, text []byte) bool {
	file, err := parse(name, text)
	if err != nil {
		return false
	}
	if slices.ContainsFunc([]string{"mode", "fields", "classes", "default", "total", "priority", "tenants", "deadline"}, file.Has) {
		return true
	}
	list, ok := fieldsOf(file, file.Body)["rules"].(*ast.SequenceNode)
	if !ok {
		return false
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(list.Values, func(n ast.Node) bool {
			rule := fieldsOf(file, n)
			return slices.ContainsFunc(names, func(name string) bool { return rule[name] != nil })
		})
	}
	return has("by", "routes", "except") || has("rate") && !has("key", "glob", "regex", "entries")
}

// fieldsOf returns the values of a mapping by name.
func fieldsOf(file *strictyaml.File, n ast.Node) map[string]ast.Node {
	values := map[string]ast.Node{}
	for _, e := range file.Fields(n, "") {
		values[strictyaml.Scalar(file.Plain(e.Key))] = file.Plain(e.Value)
	}
	return values
}
