package strictyaml

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/spelling"
)

// Join returns the path of the field name in the value at path. The path of the
// document is empty.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Field returns the field of a struct by its name in files.
func (f *File) Field(v reflect.Value, name string) (reflect.Value, bool) {
	places := f.fields[v.Type()]
	if places == nil {
		places = fieldsOf(v.Type())
		f.fields[v.Type()] = places
	}
	place, ok := places[name]
	if !ok {
		return reflect.Value{}, false
	}
	return v.FieldByIndex(place), true
}

// fieldsOf returns the indexes of a struct's fields by their names in files. Fields
// of an inline struct count as fields of the outer one.
func fieldsOf(t reflect.Type) map[string][]int {
	places := map[string][]int{}
	for i := range t.NumField() {
		name, inline := tagOf(t.Field(i))
		if inline {
			for name, place := range fieldsOf(t.Field(i).Type) {
				places[name] = append([]int{i}, place...)
			}
		} else if name != "" {
			places[name] = []int{i}
		}
	}
	return places
}

func tagOf(f reflect.StructField) (name string, inline bool) {
	tag, ok := f.Tag.Lookup("yaml")
	if !ok {
		tag = f.Tag.Get("json")
	}
	name, options, _ := strings.Cut(tag, ",")
	if name == "-" {
		name = ""
	}
	return name, options == "inline"
}

// known lists the names of a struct's fields, and suggests the one that is closest
// to a misspelt name.
func known(t reflect.Type, meant string) string {
	names := slices.Sorted(maps.Keys(fieldsOf(t)))
	list := strings.Join(names, ", ")
	if closest := spelling.Closest(meant, names); closest != "" {
		list += ": did you mean " + closest + "?"
	}
	return list
}
