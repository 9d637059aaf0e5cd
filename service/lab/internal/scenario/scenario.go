// Package scenario reads scenario files: a sim.Scenario in YAML, or with a field fleet a
// fleet.Scenario, and variants of it to compare.
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
//	variants:                         # each changes some of the fields
//	  - name: no limit
//	  - name: limit 5
//	    set:
//	      layers.service.guard.limit: 5
//	      clients.users.timeout: 2.5s
//
// A path names an element of a list by its name. A matrix is a list of lists of variants:
// every combination of one variant of each list is a run. A limit may be a number or a
// name alone.
package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weir-go/weir/service/internal/strictyaml"
	"github.com/weir-go/weir/service/lab/internal/fleet"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A File is a scenario and its variants.
type File struct {
	Scenario sim.Scenario // without variants
	// Figures are the runs. The runs of one figure differ only in the last list of the
	// matrix. The Name of a run is the name of its variant, empty if there are none.
	Figures [][]sim.Scenario
	// Fleets are the runs of a file about a fleet. Then there are no Figures.
	Fleets [][]fleet.Scenario
	Titles []string // of the figures: the scenario's name, and the variants of the lists before the last
}

// Bounds of a file.
const (
	maxBytes  = 1 << 20
	maxValues = 1_000_000 // of a run, including values that aliases repeat
	maxRuns   = 10_000
)

// Read reads the file at path. Mistakes in its content are *strictyaml.Errors, joined.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads the content of a file; path is for errors.
func Parse(path string, text []byte) (*File, error) {
	d, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	if d.Body == nil {
		return nil, d.Errorf(nil, "", "want one scenario, beginning with name: and duration:")
	}
	body, axes, err := d.split()
	if err != nil {
		return nil, err
	}
	f := &File{}
	if isFleet(body) {
		_, err = combine(d, body, axes, fleetScenario, &f.Fleets, &f.Titles)
	} else {
		f.Scenario, err = combine(d, body, axes, simScenario, &f.Figures, &f.Titles)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// isFleet reports whether a document describes a fleet.
func isFleet(body *ast.MappingNode) bool {
	return slices.ContainsFunc(body.Values, func(e *ast.MappingValueNode) bool { return strictyaml.Scalar(e.Key) == "fleet" })
}

// A kind is a kind of scenario.
type kind[S any] struct {
	name     func(*S) *string
	load     func(d decoder, sc *S, known recordings) error // the files that it names
	validate func(S) error
}

var (
	simScenario   = kind[sim.Scenario]{func(sc *sim.Scenario) *string { return &sc.Name }, decoder.load, sim.Scenario.Validate}
	fleetScenario = kind[fleet.Scenario]{func(sc *fleet.Scenario) *string { return &sc.Name }, nil, fleet.Scenario.Validate}
)

// recordings are the calls of recordings, by their names in a file.
type recordings map[string][]sim.Arrival

// load reads the recordings of clients.
func (d decoder) load(sc *sim.Scenario, known recordings) error {
	for i := range sc.Clients {
		c := &sc.Clients[i]
		if c.Recording == "" {
			continue
		}
		if known[c.Recording] == nil {
			name := c.Recording
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(d.Name), name)
			}
			f, err := recorded.Open(name)
			if err != nil {
				field := fmt.Sprintf("clients[%d].recording", i)
				return d.Errorf(d.Where(field), field, "%s: %v", field, err)
			}
			known[c.Recording] = f.Calls()
		}
		c.Recorded = known[c.Recording]
	}
	return nil
}

// A variant changes some fields.
type variant struct {
	name string
	set  []*ast.MappingValueNode
}

// split separates the variants from the rest of a document.
func (d decoder) split() (body *ast.MappingNode, axes [][]variant, err error) {
	body = ast.Mapping(d.Body.GetToken(), false)
	for _, e := range d.Fields(d.Body, "a scenario") {
		switch strictyaml.Scalar(e.Key) {
		case "variants":
			axes = append(axes, d.axis(e.Value, "variants"))
		case "matrix":
			list, ok := d.Plain(e.Value).(*ast.SequenceNode)
			if !ok {
				d.Report(e.Value.GetToken(), "matrix", ": want a list of lists of variants")
				continue
			}
			for i, item := range list.Values {
				axes = append(axes, d.axis(item, fmt.Sprintf("matrix[%d]", i)))
			}
		default:
			body.Values = append(body.Values, e)
		}
	}
	if err := d.Undefined(); err != nil {
		return nil, nil, err
	}
	return body, axes, d.Err()
}

func (d decoder) axis(n ast.Node, path string) (axis []variant) {
	list, ok := d.Plain(n).(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		d.Report(n.GetToken(), path, ": want a list of variants, each with a name and what it sets")
		return nil
	}
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", path, i)
		v := variant{}
		for _, e := range d.Fields(item, path) {
			switch name := strictyaml.Scalar(e.Key); name {
			case "name":
				v.name = strictyaml.Scalar(d.Plain(e.Value))
			case "set":
				v.set = d.Fields(e.Value, path+".set")
			default:
				d.Report(e.Key.GetToken(), path+"."+name, ": unknown field; known are name, set")
			}
		}
		switch {
		case v.name == "":
			d.Report(item.GetToken(), path+".name", ": must be given")
		case slices.ContainsFunc(axis, func(other variant) bool { return other.name == v.name }):
			d.Report(item.GetToken(), path+".name", " = %q: is given twice", v.name)
		}
		axis = append(axis, v)
	}
	return axis
}

// combine decodes the scenario without variants, and makes the runs.
func combine[S any](d decoder, body *ast.MappingNode, axes [][]variant, k kind[S], figures *[][]S, titles *[]string) (sc S, err error) {
	if sc, err = decode[S](d, body, nil); err != nil {
		return sc, err
	}
	name := *k.name(&sc)
	if name == "" {
		return sc, d.Errorf(d.Where(""), "name", "name: must be given")
	}
	if len(axes) == 0 {
		axes = [][]variant{{{}}}
	}
	runs := 1
	for _, axis := range axes {
		if runs *= len(axis); runs > maxRuns {
			return sc, d.Errorf(nil, "", "the variants make more than %d runs", maxRuns)
		}
	}
	known := recordings{}
	for _, before := range combinations(axes[:len(axes)-1]) {
		title := name
		for _, v := range before {
			title += ", " + v.name
		}
		var runs []S
		for _, v := range axes[len(axes)-1] {
			run, err := decode[S](d, body, append(slices.Clip(before), v))
			if err != nil {
				return sc, err
			}
			*k.name(&run) = v.name
			if k.load != nil {
				if err := k.load(d, &run, known); err != nil {
					return sc, err
				}
			}
			if err := k.validate(run); err != nil {
				return sc, d.complain(err, v.name)
			}
			runs = append(runs, run)
		}
		*titles = append(*titles, title)
		*figures = append(*figures, runs)
	}
	return sc, nil
}

// combinations returns all lists of one variant of each axis.
func combinations(axes [][]variant) [][]variant {
	all := [][]variant{nil}
	for _, axis := range axes {
		var longer [][]variant
		for _, sofar := range all {
			for _, v := range axis {
				longer = append(longer, append(slices.Clip(sofar), v))
			}
		}
		all = longer
	}
	return all
}

// complain turns an error of a scenario's field into one with a position in the file.
func (d decoder) complain(err error, variant string) error {
	e, ok := errors.AsType[*sim.FieldError](err)
	if !ok {
		return err
	}
	what := fmt.Sprintf("%s = %v: %s", e.Field, e.Value, e.Rule)
	if variant != "" {
		what += fmt.Sprintf(" (in the variant %q)", variant)
	}
	return d.Errorf(d.Where(e.Field), e.Field, "%s", what)
}

// decode decodes the body, and the fields that the variants set.
func decode[S any](d decoder, body *ast.MappingNode, variants []variant) (sc S, err error) {
	d.Reset()
	v := reflect.ValueOf(&sc).Elem()
	d.Decode(body, v, "")
	for _, variant := range variants {
		for _, e := range variant.set {
			field, path, err := d.find(v, e.Key)
			if err != nil {
				return sc, err
			}
			d.Decode(e.Value, field, path)
		}
	}
	return sc, d.Err()
}

// find follows a path such as layers.service.guard.limit, and allocates nil pointers on
// the way.
func (d decoder) find(v reflect.Value, key ast.Node) (field reflect.Value, path string, err error) {
	text := strictyaml.Scalar(key)
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
			if v, ok = d.Field(v, name); ok {
				path = strictyaml.Join(path, name)
			}
		case reflect.Slice:
			for i := range v.Len() {
				item := v.Index(i)
				if named, has := d.Field(item, "name"); has && named.String() == name {
					v, ok, path = item, true, fmt.Sprintf("%s[%d]", path, i)
					break
				}
			}
		}
		if !ok {
			return v, path, d.Errorf(key.GetToken(), "", "set %s: there is no %q; a path is such as layers.NAME.guard.limit or clients.NAME.rate", text, name)
		}
	}
	return v, path, nil
}
