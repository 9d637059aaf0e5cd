// Package scenario reads scenario files: a sim.Scenario in YAML, and variants
// of it to compare.
//
//	name: capacity                    # the fields of sim.Scenario, by their names in its tags
//	duration: 5m
//	layers:
//	  - name: service
//	    workers: 7
//	    service_time: {mean: 2s}
//	clients:
//	  - name: users
//	    rate: 5
//	variants:                         # each sets some of them anew
//	  - name: no limit
//	  - name: limit 5
//	    set:
//	      layers.service.guard.limit: 5
//	      clients.users.timeout: 2.5s
//
// A path names an element of a list by its name. With matrix, a list of lists
// of variants, each combination of one of each list is a variant. A limit can
// be written as a number or a name alone.
package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/weir-go/weir/lab/sim"
)

// A File is a scenario and its variants.
type File struct {
	Path     string
	Scenario sim.Scenario // what the variants are of
	// Figures are the runs: those of one figure differ in the last list of the
	// matrix only, and are to be looked at side by side. The Name of a run
	// is that of its variant, empty if there are none.
	Figures [][]sim.Scenario
	Titles  []string // of the figures: the scenario's name, and the variants of the lists before the last
}

// Read reads the file at path. What is wrong with its content is an *Error.
func Read(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1)) // enough to see that it is too large
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads the content of a file; path is for errors.
func Parse(path string, text []byte) (*File, error) {
	d := &decoder{file: path, at: map[string]*token.Token{}, anchors: map[string]ast.Node{}}
	if err := d.bounded(text); err != nil {
		return nil, err
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		if e, ok := errors.AsType[yaml.Error](err); ok {
			return nil, d.fail(e.GetToken(), "not YAML: %s", e.GetMessage())
		}
		return nil, fmt.Errorf("%s: not YAML: %w", path, err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return nil, d.fail(nil, "want one scenario, beginning with name: and duration:")
	}
	body, axes, err := d.split(tree.Docs[0].Body)
	if err != nil {
		return nil, err
	}
	if d.unknown != nil {
		return nil, d.undefined()
	}
	f := &File{Path: path}
	if f.Scenario, err = d.scenario(body, nil); err != nil {
		return nil, err
	}
	if f.Scenario.Name == "" {
		return nil, d.fail(d.at[""], "name: must be given")
	}
	return f, f.combine(d, body, axes)
}

// A variant sets some fields anew.
type variant struct {
	name string
	set  []*ast.MappingValueNode
}

// split takes the variants out of a document.
func (d *decoder) split(n ast.Node) (body *ast.MappingNode, axes [][]variant, err error) {
	entries, err := d.fields(n, "a scenario")
	if err != nil {
		return nil, nil, err
	}
	body = ast.Mapping(n.GetToken(), false)
	for _, e := range entries {
		switch scalar(e.Key) {
		case "variants":
			axis, err := d.axis(e.Value, "variants")
			if err != nil {
				return nil, nil, err
			}
			axes = append(axes, axis)
		case "matrix":
			list, ok := d.plain(e.Value).(*ast.SequenceNode)
			if !ok {
				return nil, nil, d.fail(e.Value.GetToken(), "matrix: want a list of lists of variants")
			}
			for i, item := range list.Values {
				axis, err := d.axis(item, fmt.Sprintf("matrix[%d]", i))
				if err != nil {
					return nil, nil, err
				}
				axes = append(axes, axis)
			}
		default:
			body.Values = append(body.Values, e)
		}
	}
	return body, axes, nil
}

func (d *decoder) axis(n ast.Node, path string) (axis []variant, err error) {
	list, ok := d.plain(n).(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return nil, d.fail(n.GetToken(), "%s: want a list of variants, each with a name and what it sets", path)
	}
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", path, i)
		entries, err := d.fields(item, path)
		if err != nil {
			return nil, err
		}
		v := variant{}
		for _, e := range entries {
			switch scalar(e.Key) {
			case "name":
				v.name = scalar(d.plain(e.Value))
			case "set":
				if v.set, err = d.fields(e.Value, path+".set"); err != nil {
					return nil, err
				}
			default:
				return nil, d.fail(e.Key.GetToken(), "%s.%s: unknown field; known are name, set", path, scalar(e.Key))
			}
		}
		switch {
		case v.name == "":
			return nil, d.fail(item.GetToken(), "%s.name: must be given", path)
		case slices.ContainsFunc(axis, func(other variant) bool { return other.name == v.name }):
			return nil, d.fail(item.GetToken(), "%s.name = %q: is given twice", path, v.name)
		}
		axis = append(axis, v)
	}
	return axis, nil
}

// combine makes the runs.
func (f *File) combine(d *decoder, body *ast.MappingNode, axes [][]variant) (err error) {
	last := []variant{{}}
	runs := 1
	for _, axis := range axes {
		if runs *= len(axis); runs > maxRuns {
			return d.fail(nil, "the variants make more than %d runs", maxRuns)
		}
	}
	if len(axes) > 0 {
		last = axes[len(axes)-1]
		axes = axes[:len(axes)-1]
	}
	figures := [][]variant{nil}
	for _, axis := range axes {
		var longer [][]variant
		for _, sofar := range figures {
			for _, v := range axis {
				longer = append(longer, append(sofar[:len(sofar):len(sofar)], v))
			}
		}
		figures = longer
	}
	for _, before := range figures {
		title := f.Scenario.Name
		for _, v := range before {
			title += ", " + v.name
		}
		var runs []sim.Scenario
		for _, v := range last {
			run, err := d.scenario(body, append(before[:len(before):len(before)], v))
			if err != nil {
				return err
			}
			run.Name = v.name
			if err := run.Validate(); err != nil {
				return d.complain(err, v.name)
			}
			runs = append(runs, run)
		}
		f.Titles = append(f.Titles, title)
		f.Figures = append(f.Figures, runs)
	}
	return nil
}

// complain turns an error of a scenario's field into one of the file.
func (d *decoder) complain(err error, variant string) error {
	e, ok := errors.AsType[*sim.FieldError](err)
	if !ok {
		return err
	}
	what := fmt.Sprintf("%s = %v: %s", e.Field, e.Value, e.Rule)
	if variant != "" {
		what += fmt.Sprintf(" (in the variant %q)", variant)
	}
	return d.fail(d.where(e.Field), "%s", what)
}

// scenario reads the body, and what the variants set.
func (d *decoder) scenario(body *ast.MappingNode, variants []variant) (sc sim.Scenario, err error) {
	d.at, d.nodes = map[string]*token.Token{}, 0
	if err := d.decode(body, reflect.ValueOf(&sc).Elem(), ""); err != nil {
		return sc, err
	}
	for _, v := range variants {
		for _, e := range v.set {
			field, path, err := d.find(reflect.ValueOf(&sc).Elem(), e.Key)
			if err != nil {
				return sc, err
			}
			if err := d.decode(e.Value, field, path); err != nil {
				return sc, err
			}
		}
	}
	return sc, nil
}

// find follows a path such as layers.service.guard.limit, and makes what is
// missing on the way.
func (d *decoder) find(v reflect.Value, key ast.Node) (field reflect.Value, path string, err error) {
	text := scalar(key)
	for name := range strings.SplitSeq(text, ".") {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		ok := false
		switch v.Kind() {
		case reflect.Struct:
			if v, ok = fieldOf(v, name); ok {
				path = join(path, name)
			}
		case reflect.Slice:
			for i := range v.Len() {
				item := v.Index(i)
				if named, has := fieldOf(item, "name"); has && named.String() == name {
					v, ok, path = item, true, fmt.Sprintf("%s[%d]", path, i)
					break
				}
			}
		}
		if !ok {
			return v, path, d.fail(key.GetToken(), "set %s: there is no %q; a path is such as layers.NAME.guard.limit or clients.NAME.rate", text, name)
		}
	}
	return v, path, nil
}
