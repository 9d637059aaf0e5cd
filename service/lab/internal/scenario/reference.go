package scenario

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/fleet"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A Section describes the fields of a mapping in a scenario file. It is made of the tags of a struct: help explains
// a field, default and example are its values, required says that it must be given, enum and max bound it.
type Section struct {
	Path   string  // of the mapping, such as layers[].guard; at the top, what the file describes
	Text   string  // what the mapping is
	Fields []Field // in their order in the struct
}

// A Field is a field of a mapping.
type Field struct {
	filedoc.Field
	name    string
	mapping string // the Path of the Section that describes the value, or each value of a list; empty for others
	depth   int    // of lists of the mappings
	named   bool   // the mappings have names
	short   shortForm
	needed  bool // it must be given
}

// At the top of a file.
const (
	requests = "a scenario of requests"
	leaves   = "a scenario of a fleet"
)

// runs are the fields at the top of a file that are not those of a scenario.
type runs struct {
	Variants []oneRun   `yaml:"variants" help:"Runs that are compared in one table and plot. Each changes some fields."`
	Matrix   [][]oneRun `yaml:"matrix" help:"Lists of variants: each combination of one variant of each list is a run. The runs of a plot differ in the last list."`
}

type oneRun struct {
	Name string         `yaml:"name" required:"true" example:"twice the load" help:"Names the run."`
	Set  map[string]any `yaml:"set" default:"no change" example:"{layers.service.workers: 5, clients.users.rate: 200}" help:"New values of fields, by their paths. In a path, an element of a list has its name."`
}

// untagged describes fields of structs that are not only for files.
var untagged = map[reflect.Type]map[string]filedoc.Field{
	reflect.TypeFor[limit.Config](): {
		"initial":             {Default: "10 of auto, 20 of the others, within min and max", Example: "50", Text: "Of the algorithms: the limit at the beginning."},
		"min":                 {Default: "1; of gradient2, 20", Example: "2", Text: "Of the algorithms: lower bound of the limit."},
		"max":                 {Default: "10000 of auto, 200 of gradient2, 1000 of the others", Example: "100", Text: "Of the algorithms: upper bound of the limit."},
		"max_healthy_latency": {Default: "no bound", Example: "2s", Text: "Of the algorithms: work that takes longer is a sign of overload."},
	},
	reflect.TypeFor[adaptive.Config](): {
		"k":      {Default: "2", Example: "1.5", Text: "Requests that each accepted request allows, at least 1."},
		"window": {Default: "30s", Example: "1m", Text: "Time over which requests count."},
		"grace":  {Default: "20", Example: "5", Least: math.MinInt64 + 1, Text: "Requests in a window that are sent in any case; < 0 for none."},
		"max_p":  {Default: "0.9", Example: "0.95", Text: "The highest probability that an attempt is held back, at most 1."},
	},
	reflect.TypeFor[adaptive.BudgetConfig](): {
		"ratio":          {Default: "0.1", Example: "0.2", Text: "Share of the calls that may be retried, at most 1."},
		"min_per_second": {Default: "1", Example: "5", Text: "Retries a second that are allowed in any case; < 0 for none."},
		"window":         {Default: "10s", Example: "30s", Text: "Time over which calls and retries count."},
	},
}

// A shortForm lists values that may replace a mapping, or a list of mappings.
type shortForm struct {
	values []filedoc.Field // of these kinds
	text   string          // what they mean
}

var shortForms = map[reflect.Type]shortForm{
	reflect.TypeFor[dist.ServiceTime](): {[]filedoc.Field{{Kind: filedoc.Duration}}, "A duration alone is a constant time."},
	reflect.TypeFor[sim.Class]():        {[]filedoc.Field{{Kind: filedoc.Duration}}, "A duration alone is a constant time."},
	reflect.TypeFor[sim.SlowStart]():    {[]filedoc.Field{{Kind: filedoc.Duration}}, "A duration alone is idle."},
	reflect.TypeFor[sim.Instances]():    {[]filedoc.Field{{Kind: filedoc.Number}}, "A number alone is the count of equal ones."},
	reflect.TypeFor[sim.Limit](): {[]filedoc.Field{{Kind: filedoc.Number}, {Kind: filedoc.Text, Type: "name"}},
		"A number alone is a fixed limit; a name alone is an algorithm with its defaults."},
}

// Reference returns the sections of the reference of scenario files.
func Reference() []Section {
	d := describer{paths: map[reflect.Type]string{}}
	top := d.fields(reflect.TypeFor[runs](), "")
	variants := d.sections
	d.sections = nil
	d.add(requests, "Clients send requests through layers of services.", reflect.TypeFor[sim.Scenario](), top)
	d.add(leaves, "Leaves of weir serve share limits. A file with the field fleet is one.", reflect.TypeFor[fleet.Scenario](), top)
	return append(d.sections, variants...)
}

// A describer makes sections of structs.
type describer struct {
	sections []Section
	paths    map[reflect.Type]string // of the sections
}

// add adds the section of a struct, and those of its fields behind it. The fields more come last.
func (d *describer) add(path, text string, t reflect.Type, more []Field) {
	d.paths[t] = path
	at := len(d.sections)
	d.sections = append(d.sections, Section{Path: path, Text: text})
	in := path
	if len(more) > 0 {
		in = ""
	}
	fields := d.fields(t, in)
	d.sections[at].Fields = append(fields, more...)
}

// fields describes the fields of a struct.
func (d *describer) fields(t reflect.Type, in string) (fields []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("yaml")
		if tag == "" {
			tag = f.Tag.Get("json")
		}
		name, option, _ := strings.Cut(tag, ",")
		_, described := f.Tag.Lookup("help")
		switch {
		case name == "-" || name == "" && option != "inline":
		case option == "inline", t == reflect.TypeFor[sim.Limit]() && !described && f.Type.Kind() == reflect.Struct: // the fields of the algorithm are beside its name
			for _, inner := range d.fields(f.Type, in) {
				if !slices.ContainsFunc(fields, func(f Field) bool { return f.name == inner.name }) {
					fields = append(fields, inner)
				}
			}
		default:
			fields = append(fields, d.field(t, f, in, name))
		}
	}
	return fields
}

// field describes a field of the struct t.
func (d *describer) field(t reflect.Type, f reflect.StructField, in, name string) Field {
	path := strings.TrimPrefix(in+"."+name, ".")
	field := Field{Field: filedoc.Field{Path: path, Default: f.Tag.Get("default"), Example: f.Tag.Get("example"), Text: f.Tag.Get("help")}, name: name}
	if other, ok := untagged[t][name]; ok {
		other.Path = path
		field.Field = other
	}
	if field.needed = f.Tag.Get("required") == "true"; field.needed {
		field.Default = "must be given"
	}
	of := f.Type
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	_, text := reflect.New(of).Interface().(encoding.TextUnmarshaler)
	if enum := f.Tag.Get("enum"); enum != "" {
		field.Kind, field.Values = filedoc.Enum, strings.Split(enum, ",")
		return field
	}
	switch kind := of.Kind(); {
	case of == reflect.TypeFor[time.Duration]():
		field.Kind = filedoc.Duration
		if f.Tag.Get("signed") == "true" {
			field.Least, field.Type = -1, "duration of either sign"
		}
	case text, kind == reflect.String:
		field.Kind = filedoc.Text
	case kind == reflect.Bool:
		field.Kind = filedoc.Flag
	case kind >= reflect.Int && kind <= reflect.Uint64:
		field.Kind = filedoc.Number
		if most, err := strconv.ParseInt(f.Tag.Get("max"), 10, 64); err == nil {
			field.Most, field.Type = most, fmt.Sprintf("whole number up to %d", most)
		}
	case kind == reflect.Float64:
		field.Kind = filedoc.Real
		if most := f.Tag.Get("max"); most != "" && most != "inf" {
			field.Type = "number from 0 to " + most
		}
	case kind == reflect.Map && of.Elem().Kind() == reflect.Interface:
		field.Kind, field.Type = filedoc.Object, "values by path"
	case kind == reflect.Slice && of.Elem().Kind() == reflect.String:
		field.Kind, field.Unit, field.Type = filedoc.List, "texts", "list of texts"
	case kind == reflect.Slice && of.Elem().Kind() == reflect.Float64:
		field.Kind = filedoc.Reals
	case kind == reflect.Slice && of.Elem().Kind() == reflect.Int:
		field.Kind, field.Type = filedoc.Reals, "list of whole numbers"
	default:
		d.mapping(&field, of)
	}
	return field
}

// mapping describes a field with a mapping, a list of mappings, or mappings by name.
func (d *describer) mapping(field *Field, of reflect.Type) {
	at, kind := field.Path, "mapping"
	field.short = shortForms[of]
	for of.Kind() == reflect.Slice {
		of, at, kind = of.Elem(), at+"[]", "list of "+strings.TrimSuffix(kind, "s")+"s"
		field.depth++
	}
	if of.Kind() == reflect.Map {
		of, at, kind, field.named = of.Elem(), at+".NAME", "mappings by name", true
		field.short = shortForms[of]
	}
	if of.Kind() != reflect.Struct {
		panic(fmt.Sprintf("scenario: %s has the type %v, which the reference does not know", field.Path, of))
	}
	if kind == "list of list of mappings" {
		kind = "list of lists of mappings"
	}
	for _, short := range slices.Backward(field.short.values) {
		kind = cmp.Or(short.Type, string(short.Kind)) + ", or " + kind
	}
	if path, known := d.paths[of]; known {
		kind += " as `" + path + "`"
	} else {
		d.add(at, strings.TrimSpace(field.Text+" "+field.short.text), of, nil)
	}
	field.Type, field.mapping = kind, d.paths[of]
}

// Lines returns the reference for a terminal.
func Lines() string {
	var b strings.Builder
	for i, s := range Reference() {
		if s.Path == requests || s.Path == leaves {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s%s: %s\n\n", strings.ToUpper(s.Path[:1]), s.Path[1:], s.Text)
		}
		b.WriteString(filedoc.Lines(fieldsOf(s)))
	}
	return b.String()
}

// Markdown returns the reference as a page.
func Markdown() string {
	var b strings.Builder
	for _, s := range Reference() {
		title := "`" + s.Path + "`"
		if s.Path == requests || s.Path == leaves {
			title = strings.ToUpper(s.Path[:1]) + s.Path[1:]
		}
		fields := fieldsOf(s)
		for i := range fields {
			fields[i].Path = s.Fields[i].name
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", title, s.Text, filedoc.Markdown(fields))
	}
	return b.String()
}

func fieldsOf(s Section) (fields []filedoc.Field) {
	for _, f := range s.Fields {
		fields = append(fields, f.Field)
	}
	return fields
}

// Schema returns a JSON schema, draft 2020-12, of scenario files, for editors. Parse checks more.
func Schema() map[string]any {
	defs := map[string]any{}
	for _, s := range Reference() {
		properties, required := map[string]any{}, []string{}
		for _, f := range s.Fields {
			properties[f.name] = f.schema()
			if f.needed {
				required = append(required, f.name)
			}
		}
		defs[s.Path] = map[string]any{
			"type": "object", "description": s.Text, "additionalProperties": false, "properties": properties, "required": required,
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A scenario of weirlab sim", "$defs": defs, "type": "object",
		"if": map[string]any{"required": []string{"fleet"}}, "then": ref(leaves), "else": ref(requests),
	}
}

func ref(path string) map[string]any {
	return map[string]any{"$ref": "#/$defs/" + strings.NewReplacer(" ", "%20", "[", "%5B", "]", "%5D").Replace(path)}
}

// schema returns the JSON schema of the values of the field.
func (f Field) schema() map[string]any {
	switch {
	case f.mapping == "" && f.Kind == filedoc.Object:
		return map[string]any{"type": "object", "description": f.Text}
	case f.mapping == "" && f.needed:
		f.Default = ""
		return f.Field.Schema()
	case f.mapping == "":
		return f.Field.Schema()
	}
	s := ref(f.mapping)
	for range f.depth {
		s = map[string]any{"type": "array", "items": s}
	}
	if len(f.short.values) > 0 {
		either := []any{s}
		for _, short := range f.short.values {
			either = append(either, short.Schema())
		}
		s = map[string]any{"anyOf": either}
	}
	if f.named {
		s = map[string]any{"type": "object", "additionalProperties": s}
	}
	s["description"] = f.Text
	return s
}
