package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var durationType = reflect.TypeFor[time.Duration]()

// Decode reads n into v, which must be settable, and records errors. Path names the
// value in errors. Fields that the file does not have are unchanged.
func (f *File) Decode(n ast.Node, v reflect.Value, path string) {
	n = f.Plain(n)
	if alias, ok := n.(*ast.AliasNode); ok {
		f.add(f.undefined(alias, path))
		return
	}
	if !f.count(n, path) {
		return
	}
	f.at[path] = start(n)
	if f.Null && isNull(n) {
		v.SetZero()
		return
	}
	if special, ok := f.Special[v.Type()]; ok {
		special(n, v, path)
		return
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if !isScalar(n) || isNull(n) {
			f.Report(start(n), path, ": want a single value; got %s", show(n))
		} else if octal(n) && !f.YAML11 {
			f.Report(n.GetToken(), path, " = %s: want %s", show(n), noOctal)
		} else if err := text.UnmarshalText([]byte(Scalar(n))); err != nil {
			f.Report(n.GetToken(), path, " = %v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if isNull(n) {
			v.SetZero()
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		f.Decode(n, v.Elem(), path)
	case reflect.Struct:
		f.structure(n, v, path)
	case reflect.Slice:
		f.slice(n, v, path)
	case reflect.Map:
		f.mapping(n, v, path)
	default:
		f.scalar(n, v, path)
	}
}

// count counts a value, and reports whether the file may have it.
func (f *File) count(n ast.Node, path string) bool {
	if f.values++; f.values == f.bounds.Values+1 {
		f.Report(n.GetToken(), path, ": more than %d values, counting values that aliases repeat", f.bounds.Values)
	}
	return f.values <= f.bounds.Values
}

func (f *File) structure(n ast.Node, v reflect.Value, path string) {
	for _, e := range f.Fields(n, path) {
		name := Scalar(f.Plain(e.Key))
		if field, ok := f.Field(v, name); ok {
			f.Decode(e.Value, field, Join(path, name))
		} else {
			f.Report(e.Key.GetToken(), Join(path, name), ": unknown field; known are %s", known(v.Type(), name))
		}
	}
}

var floatSyntax = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// Any returns a value of any type as encoding/json does: nil, a bool, a float64, a string, an
// []any or a map[string]any.
func (f *File) Any(n ast.Node, path string) any {
	n = f.Plain(n)
	if !f.count(n, path) || isNull(n) {
		return nil
	}
	switch n := n.(type) {
	case *ast.AliasNode:
		f.add(f.undefined(n, path))
		return nil
	case *ast.SequenceNode:
		list := []any{}
		for i, item := range n.Values {
			list = append(list, f.Any(item, path+"["+strconv.Itoa(i)+"]"))
		}
		return list
	case *ast.MappingNode, *ast.MappingValueNode:
		fields := map[string]any{}
		for _, e := range f.Fields(n, path) {
			fields[f.name(e)] = f.Any(e.Value, Join(path, f.name(e)))
		}
		return fields
	case *ast.InfinityNode, *ast.NanNode:
		f.Report(n.GetToken(), path, " = %s: want a finite number", show(n))
		return nil
	}
	text := Scalar(n)
	if !isPlain(n) {
		return text
	}
	if b, ok := f.boolOf(n); ok {
		return b
	}
	plain, base := strings.ReplaceAll(text, "_", ""), 10
	if f.YAML11 {
		base = 0
	}
	if i, err := strconv.ParseInt(plain, base, 64); err == nil {
		return float64(i)
	}
	if x, err := strconv.ParseFloat(plain, 64); err == nil && floatSyntax.MatchString(plain) {
		return x
	}
	return text
}

func (f *File) slice(n ast.Node, v reflect.Value, path string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		f.Report(start(n), path, ": want a list, a line with - for each; got %s", show(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, item := range list.Values {
		path := path + "[" + strconv.Itoa(i) + "]"
		if isNull(f.Plain(item)) {
			f.Report(item.GetToken(), path, ": must not be empty")
			continue
		}
		f.Decode(item, v.Index(i), path)
	}
}

func (f *File) mapping(n ast.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range f.Fields(n, path) {
		name := Scalar(f.Plain(e.Key))
		item := reflect.New(v.Type().Elem()).Elem()
		f.Decode(e.Value, item, Join(path, name))
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
}

func (f *File) scalar(n ast.Node, v reflect.Value, path string) {
	want := f.set(n, v)
	switch {
	case want == "":
	case isScalar(n) && !isNull(n):
		f.Report(n.GetToken(), path, " = %s: want %s", show(n), want)
	default:
		f.Report(start(n), path, ": want %s; got %s", want, show(n))
	}
}

var durationSyntax = regexp.MustCompile(`^[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// TooLong reports whether a text is a duration that exceeds a time.Duration.
func TooLong(text string) bool {
	_, err := time.ParseDuration(text)
	return err != nil && durationSyntax.MatchString(text)
}

var octalSyntax = regexp.MustCompile(`^[-+]?0[0-9_][0-9_.]*$`)

// noOctal describes numbers that octal does not report.
const noOctal = "a number that does not begin with 0, which means 8 in YAML 1.1 for 010"

// octal reports whether a scalar is a number that begins with 0: YAML 1.1 and 1.2 differ about it.
func octal(n ast.Node) bool { return isPlain(n) && octalSyntax.MatchString(Scalar(n)) }

// boolOf returns the value of a boolean.
func (f *File) boolOf(n ast.Node) (value, ok bool) {
	if b, ok := n.(*ast.BoolNode); ok {
		return b.Value, true
	}
	if !f.YAML11 || !isPlain(n) {
		return false, false
	}
	switch Scalar(n) {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

// set sets v to a scalar, or returns a description of the values that v can have.
func (f *File) set(n ast.Node, v reflect.Value) (want string) {
	text, number, base := Scalar(n), isPlain(n), 10
	if f.YAML11 {
		base = 0
	}
	switch {
	case v.Type() == durationType:
		if d, err := time.ParseDuration(text); err == nil && isScalar(n) {
			v.SetInt(int64(d))
			return ""
		}
		if TooLong(text) {
			return fmt.Sprintf("a duration of at most %dh", int(math.MaxInt64/time.Hour))
		}
		return "a duration with its unit, such as 5ms, 2.5s or 10m"
	case v.Kind() == reflect.String:
		if isScalar(n) && !isNull(n) {
			v.SetString(text)
			return ""
		}
		return "a text"
	case v.Kind() == reflect.Bool:
		if b, ok := f.boolOf(n); ok {
			v.SetBool(b)
			return ""
		}
		return "true or false"
	case octal(n) && !f.YAML11:
		return noOctal
	case v.CanFloat():
		if f, err := strconv.ParseFloat(text, 64); err == nil && number {
			v.SetFloat(f)
			return ""
		}
		return "a number"
	case v.CanInt():
		i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), base, v.Type().Bits())
		switch {
		case err == nil && number:
			v.SetInt(i)
			return ""
		case errors.Is(err, strconv.ErrRange):
			return "a number of fewer digits"
		}
		return "a whole number"
	case v.CanUint():
		i, err := strconv.ParseUint(strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+"), base, v.Type().Bits())
		switch {
		case err == nil && number:
			v.SetUint(i)
			return ""
		case errors.Is(err, strconv.ErrRange):
			return fmt.Sprintf("a whole number <= %d", uint64(math.MaxUint64)>>(64-v.Type().Bits()))
		}
		return "a whole number >= 0"
	default:
		return "nothing: it cannot be set in a file"
	}
}
