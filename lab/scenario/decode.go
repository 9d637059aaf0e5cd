package scenario

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/weir-go/weir/lab/sim"
)

// An Error is what is wrong with a scenario file.
type Error struct {
	File         string
	Line, Column int
	What         string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

// A decoder reads nodes into Go values, strictly: a field that is not known,
// or of another kind, is an error. It remembers where each field came from, so
// that later complaints can say so.
type decoder struct {
	file    string
	at      map[string]*token.Token // by path, such as layers[0].service_time.mean
	anchors map[string]ast.Node
	unknown *ast.AliasNode // the first without an anchor before it
	nodes   int            // of the present run, aliases expanded
}

// maxNodes bounds what aliases make of a small file.
const maxNodes = 1_000_000

func (d *decoder) fail(t *token.Token, format string, args ...any) error {
	e := &Error{File: d.file, Line: 1, Column: 1, What: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// where returns the token of a path or, if it was not given, of what holds it.
func (d *decoder) where(path string) *token.Token {
	for {
		if t, ok := d.at[path]; ok || path == "" {
			return t
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// plain takes anchors, aliases and tags off a node.
func (d *decoder) plain(n ast.Node) ast.Node {
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			// Before the name counts: an alias in its own anchor is unknown.
			n = d.plain(t.Value)
			d.anchors[t.Name.String()] = n
		case *ast.AliasNode:
			to, ok := d.anchors[t.Value.String()]
			if !ok {
				if d.unknown == nil {
					d.unknown = t
				}
				return n
			}
			return to
		case *ast.TagNode:
			n = t.Value
		default:
			return n
		}
	}
}

func (d *decoder) undefined() error {
	return d.fail(d.unknown.GetToken(), "*%s: there is no &%[1]s before it", d.unknown.Value)
}

// fields returns the entries of a mapping.
func (d *decoder) fields(n ast.Node, path string) ([]*ast.MappingValueNode, error) {
	switch m := d.plain(n).(type) {
	case *ast.MappingNode:
		return m.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, nil
	case nil, *ast.NullNode:
		return nil, nil
	default:
		return nil, d.fail(m.GetToken(), "%s: want fields, as in name: value; got %s", path, m)
	}
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	limitType    = reflect.TypeFor[sim.Limit]()
)

// decode reads n into v, which can be set.
func (d *decoder) decode(n ast.Node, v reflect.Value, path string) error {
	n = d.plain(n)
	if d.unknown != nil {
		return d.undefined()
	}
	if d.nodes++; d.nodes > maxNodes {
		return d.fail(n.GetToken(), "more than %d values, with all aliases put in", maxNodes)
	}
	d.at[path] = n.GetToken()
	switch {
	case v.Type() == durationType:
		return d.duration(n, v, path)
	case v.Type() == limitType:
		return d.limit(n, v, path)
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := text.UnmarshalText([]byte(scalar(n))); err != nil {
			return d.fail(n.GetToken(), "%s = %v", path, err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if _, null := n.(*ast.NullNode); null {
			v.SetZero()
			return nil
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return d.decode(n, v.Elem(), path)
	case reflect.Struct:
		return d.structure(n, v, path)
	case reflect.Slice:
		return d.slice(n, v, path)
	case reflect.Map:
		return d.mapping(n, v, path)
	default:
		return d.scalar(n, v, path)
	}
}

// structure reads into the fields that are given, and leaves the others.
func (d *decoder) structure(n ast.Node, v reflect.Value, path string) error {
	entries, err := d.fields(n, path)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name := scalar(d.plain(e.Key))
		field, ok := fieldOf(v, name)
		if !ok {
			return d.fail(e.Key.GetToken(), "%s: unknown field; known are %s", join(path, name), strings.Join(names(v.Type()), ", "))
		}
		if seen[name] {
			return d.fail(e.Key.GetToken(), "%s: given twice", join(path, name))
		}
		seen[name] = true
		if err := d.decode(e.Value, field, join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) slice(n ast.Node, v reflect.Value, path string) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.fail(n.GetToken(), "%s: want a list, a line with - for each; got %s", path, n)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", path, i)
		if _, null := d.plain(item).(*ast.NullNode); null {
			return d.fail(item.GetToken(), "%s: must not be empty", path)
		}
		if err := d.decode(item, v.Index(i), path); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) error {
	entries, err := d.fields(n, path)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range entries {
		name := scalar(d.plain(e.Key))
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.decode(e.Value, item, join(path, name)); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
	return nil
}

func (d *decoder) duration(n ast.Node, v reflect.Value, path string) error {
	t, err := time.ParseDuration(scalar(n))
	if err != nil {
		return d.fail(n.GetToken(), "%s = %s: want a duration with its unit, such as 5ms, 2.5s or 10m", path, scalar(n))
	}
	v.SetInt(int64(t))
	return nil
}

// limit reads a number, a name, or a name with the fields of its
// configuration beside it.
func (d *decoder) limit(n ast.Node, v reflect.Value, path string) error {
	limit := sim.Limit{}
	if isScalar(n) {
		limit.Name = scalar(n)
		if units, err := strconv.Atoi(limit.Name); err == nil {
			limit = sim.Limit{Name: "fixed", N: units}
		}
		v.Set(reflect.ValueOf(limit))
		return nil
	}
	entries, err := d.fields(n, path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if scalar(e.Key) == "name" {
			limit.Name = scalar(d.plain(e.Value))
		}
	}
	own := reflect.ValueOf(&limit).Elem()
	cfg, configured := fieldOf(own, limit.Name)
	for _, e := range entries {
		name := scalar(e.Key)
		field, ok := reflect.Value{}, false
		if name == "name" || name == "window" || name == "n" && limit.Name == "fixed" {
			field, ok = fieldOf(own, name)
		} else if configured && cfg.Kind() == reflect.Struct {
			field, ok = fieldOf(cfg, name)
		}
		if !ok {
			return d.fail(e.Key.GetToken(), "%s: unknown field of the limit %q", join(path, name), limit.Name)
		}
		if err := d.decode(e.Value, field, join(path, name)); err != nil {
			return err
		}
	}
	v.Set(reflect.ValueOf(limit))
	return nil
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) error {
	text := scalar(n)
	want := ""
	switch v.Kind() {
	case reflect.String:
		if want = "a text"; isScalar(n) {
			v.SetString(text)
			return nil
		}
	case reflect.Bool:
		want = "true or false"
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return nil
		}
	case reflect.Float64:
		want = "a number"
		if f, err := strconv.ParseFloat(text, 64); err == nil && isScalar(n) {
			v.SetFloat(f)
			return nil
		}
	case reflect.Int, reflect.Int64:
		want = "a whole number"
		if i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64); err == nil && isScalar(n) {
			v.SetInt(i)
			return nil
		}
	case reflect.Uint64:
		want = "a whole number >= 0"
		if i, err := strconv.ParseUint(text, 10, 64); err == nil && isScalar(n) {
			v.SetUint(i)
			return nil
		}
	default:
		return d.fail(n.GetToken(), "%s: cannot be set in a file", path)
	}
	return d.fail(n.GetToken(), "%s = %s: want %s", path, n, want)
}
