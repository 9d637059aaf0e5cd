// Package filedoc describes the keys of a YAML file: as a table for people, and as a JSON
// schema for editors.
package filedoc

import (
	"cmp"
	"fmt"
	"strings"
)

// A Kind is the kind of a value.
type Kind string

const (
	Text     Kind = "text"
	Number   Kind = "whole number"
	Real     Kind = "number"
	Share    Kind = "number from 0 to below 1"
	Duration Kind = "duration"
	Rate     Kind = "rate"
	Size     Kind = "size"
	Enum     Kind = "one of"
	Flag     Kind = "`true` or `false`"
	List     Kind = "list"
	Texts    Kind = "text, or a list of texts"
	Reals    Kind = "list of numbers"
	Map      Kind = "texts by name"
	Numbers  Kind = "whole numbers by name"
	Object   Kind = "mapping"
)

// A Field is a key of a file.
type Field struct {
	Path    string // rules[].concurrency.ttl; without a point and [] if it is at the top
	Kind    Kind
	Type    string   // the values in words; if empty, the Kind says it
	Unit    string   // of a Number: tokens
	Values  []string // of an Enum, or what a Number can be besides
	Least   int64    // of a Number; of a Duration, < 0 if it may be negative
	Most    int64    // of a Number; 0 if it has no bound
	Default string   // in words; empty if the key must be given, or has none
	Example string   // a value in YAML
	Text    string   // what it means: Markdown
}

// typed describes the type of a value: whole number of tokens, or auto.
func (f Field) typed() string {
	var values []string
	for _, v := range f.Values {
		values = append(values, "`"+v+"`")
	}
	switch {
	case f.Type != "":
		return f.Type
	case f.Kind == Enum:
		return strings.Join(values, ", ")
	case f.Unit != "":
		return strings.Join(append([]string{string(f.Kind) + " of " + f.Unit}, values...), ", or ")
	}
	return string(f.Kind)
}

// Markdown returns a table of the fields.
func Markdown(fields []Field) string {
	var b strings.Builder
	b.WriteString("| key | type | default | example | meaning |\n|---|---|---|---|---|\n")
	for _, f := range fields {
		example := ""
		if f.Example != "" {
			example = "`" + f.Example + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Path, f.typed(), f.Default, example, f.Text)
	}
	return b.String()
}

// Lines returns the fields for a terminal.
func Lines(fields []Field) string {
	var b strings.Builder
	plain := func(s string) string { return strings.ReplaceAll(s, "`", "") }
	for _, f := range fields {
		fmt.Fprintf(&b, "%s (%s", f.Path, plain(f.typed()))
		if f.Default != "" {
			fmt.Fprintf(&b, "; default: %s", plain(f.Default))
		}
		b.WriteString(")\n")
		line := "   "
		for word := range strings.FieldsSeq(plain(f.Text)) {
			if len(line)+len(word) >= width {
				b.WriteString(line + "\n")
				line = "   "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
		if f.Example != "" {
			fmt.Fprintf(&b, "    such as %s: %s\n", f.Path[strings.LastIndexByte(f.Path, '.')+1:], f.Example)
		}
	}
	return b.String()
}

// width is the length of lines of Lines.
const width = 100

// Schema returns a JSON schema, draft 2020-12, of an object with the fields. A field comes
// after the one that it is in.
func Schema(fields []Field) map[string]any {
	root := object()
	for _, f := range fields {
		in := root
		parts := strings.Split(f.Path, ".")
		for _, part := range parts[:len(parts)-1] {
			name, list := strings.CutSuffix(part, "[]")
			in = in["properties"].(map[string]any)[name].(map[string]any)
			if list {
				in = items(in)
			}
		}
		in["properties"].(map[string]any)[parts[len(parts)-1]] = f.Schema()
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	return root
}

func object() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}

// items returns the schema of the items of a list of objects.
func items(list map[string]any) map[string]any {
	item, ok := list["items"].(map[string]any)
	if !ok {
		item = object()
		list["items"] = item
	}
	return item
}

const (
	// What time.ParseDuration reads.
	duration = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`
	period   = `(s|m|h|d|second|minute|hour|day|week|month|[0-9]+d|(` + duration + `)+)`
)

// Schema returns the JSON schema of the values of the field.
func (f Field) Schema() map[string]any {
	s := map[string]any{"description": strings.ReplaceAll(f.Text, "`", "")}
	text := []string{"string", "number", "boolean"} // a text need not be quoted
	switch f.Kind {
	case Text:
		s["type"] = text
	case Number:
		number := map[string]any{"type": []string{"integer", "null"}, "minimum": f.Least}
		if f.Most > 0 {
			number["maximum"] = f.Most
		}
		s["anyOf"] = []any{number}
		if len(f.Values) > 0 {
			s["anyOf"] = []any{number, map[string]any{"enum": f.Values}}
		}
	case Real:
		s["type"] = []string{"number", "null"}
	case Reals:
		s["type"], s["items"] = "array", map[string]any{"type": "number"}
	case Share:
		s["type"], s["minimum"], s["exclusiveMaximum"] = []string{"number", "null"}, 0, 1
	case Duration:
		sign := `\+?`
		if f.Least < 0 {
			sign = `[+-]?`
		}
		s["anyOf"] = []any{map[string]any{"type": "string", "pattern": "^" + sign + "(" + duration + ")+$"}, map[string]any{"const": 0}}
	case Rate:
		s["type"], s["pattern"] = "string", `^([0-9]+ */ *`+period+`)?$`
	case Size:
		s["anyOf"] = []any{map[string]any{"type": "string", "pattern": `^[0-9]+(KiB|MiB|GiB)?$`}, map[string]any{"type": "integer", "minimum": 0}}
	case Enum:
		s["enum"] = append([]string{""}, f.Values...)
	case Flag:
		s["type"] = []string{"boolean", "null"}
	case List:
		s["type"] = "array"
		if f.Unit != "" {
			s["items"] = map[string]any{"type": text}
		}
	case Texts:
		s["anyOf"] = []any{map[string]any{"type": text}, map[string]any{"type": "array", "items": map[string]any{"type": text}}}
	case Numbers:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "integer", "minimum": f.Least, "maximum": f.Most}
	case Map:
		s["type"], s["minProperties"], s["additionalProperties"] = "object", 1, map[string]any{"type": text}
	case Object:
		o := object()
		o["description"] = s["description"]
		o["type"] = []string{"object", "null"}
		return o
	}
	if f.Default != "" {
		s["description"] = cmp.Or(s["description"].(string), "") + " Default: " + strings.ReplaceAll(f.Default, "`", "") + "."
	}
	return s
}
