package scenario

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

func isScalar(n ast.Node) bool {
	_, ok := n.(ast.ScalarNode)
	return ok
}

// scalar is the text of a scalar, without its quotes.
func scalar(n ast.Node) string {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value
	case *ast.LiteralNode:
		return s.Value.Value
	default:
		return n.GetToken().Value
	}
}

// fieldOf returns the field that a file calls name.
func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tagOf(v.Type().Field(i)) == name && name != "" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// names returns what a file can call the fields of a struct.
func names(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		if name := tagOf(t.Field(i)); name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// tagOf is the name in the yaml tag or, for the configurations of other
// packages, in the json tag.
func tagOf(f reflect.StructField) string {
	tag, ok := f.Tag.Lookup("yaml")
	if !ok {
		tag = f.Tag.Get("json")
	}
	name, _, _ := strings.Cut(tag, ",")
	if name == "-" {
		return ""
	}
	return name
}
