package strictyaml

import (
	"maps"
	"reflect"
	"slices"
	"strings"
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
	closest, least := "", len(meant)/3+1
	for _, name := range names {
		if d := distance(meant, name, least); d < least {
			closest, least = name, d
		}
	}
	list := strings.Join(names, ", ")
	if closest != "" {
		list += ": did you mean " + closest + "?"
	}
	return list
}

// distance returns the number of insertions, deletions, changes and swaps of
// neighbouring letters between a and b. It is not exact from a bound on. (Damerau
// and Levenshtein's distance, as optimal string alignment.)
func distance(a, b string, bound int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= bound {
		return bound
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
