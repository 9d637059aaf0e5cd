package main

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// openapi is the description of the HTTP API of weir serve.
const openapi = "service/internal/transport/httpapi/openapi.yaml"

// An object is an object of the description, in the order of the file.
type object = yaml.MapSlice

// openAPI returns the description as Markdown.
func (s *site) openAPI() ([]byte, error) {
	text, err := s.read(openapi)
	if err != nil {
		return nil, err
	}
	var doc object
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# HTTP API of weir serve\n\n%s\n\nThe description for programs: [openapi.yaml](openapi.yaml).\n", str(get(doc, "info"), "description"))
	for _, at := range get(doc, "paths") {
		item := at.Value.(object)
		var order []string
		texts := map[string][]string{} // the methods with a text
		for _, op := range item {
			method := fmt.Sprint(op.Key)
			if method == "parameters" || method == "head" {
				continue
			}
			text := operation(doc, item, op.Value.(object))
			if texts[text] == nil {
				order = append(order, text)
			}
			texts[text] = append(texts[text], strings.ToUpper(method))
		}
		for _, text := range order {
			fmt.Fprintf(&out, "\n## %s %s\n\n%s", strings.Join(texts[text], ", "), at.Key, text)
		}
	}
	return []byte(out.String()), nil
}

// operation is the description of an operation, without its heading.
func operation(doc, item, op object) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s.\n\n%s\n", str(op, "summary"), str(op, "description"))
	parameters := append(list(item, "parameters"), list(op, "parameters")...)
	if len(parameters) > 0 {
		out.WriteString("\n| parameter | in | type | default | is |\n|---|---|---|---|---|\n")
	}
	for _, p := range parameters {
		p := resolve(doc, p)
		schema := get(p, "schema")
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", str(p, "name"), str(p, "in"), str(schema, "type"), str(schema, "default"), cell(str(p, "description")))
	}
	out.WriteString("\n| answer | means |\n|---|---|\n")
	for _, r := range get(op, "responses") {
		fmt.Fprintf(&out, "| %v | %s |\n", r.Key, cell(str(resolve(doc, r.Value), "description")))
	}
	return out.String()
}

// resolve returns an object, or what it refers to.
func resolve(doc object, v any) object {
	o := v.(object)
	ref, ok := strings.CutPrefix(str(o, "$ref"), "#/")
	if !ok {
		return o
	}
	for name := range strings.SplitSeq(ref, "/") {
		doc = get(doc, name)
	}
	return doc
}

func value(o object, key string) any {
	for _, e := range o {
		if fmt.Sprint(e.Key) == key {
			return e.Value
		}
	}
	for _, e := range o {
		if merged, ok := e.Value.(object); ok && fmt.Sprint(e.Key) == "<<" {
			return value(merged, key)
		}
	}
	return nil
}

func get(o object, key string) object {
	v, _ := value(o, key).(object)
	return v
}

func list(o object, key string) []any {
	v, _ := value(o, key).([]any)
	return v
}

func str(o object, key string) string {
	if v := value(o, key); v != nil {
		return fmt.Sprint(v)
	}
	return ""
}

// cell makes one line of a text, for a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
