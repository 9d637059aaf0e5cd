package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// proto is the description of the gRPC API of weir serve.
const proto = "api/weir/v1/weir.proto"

// gRPC returns the description as Markdown.
func (s *site) gRPC() ([]byte, error) {
	text, err := s.read(proto)
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{proto: string(text)})},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), proto)
	if err != nil {
		return nil, err
	}
	file := files[0]
	locations := file.SourceLocations()
	about := locations.ByPath(protoreflect.SourcePath{12}).LeadingComments // that of the statement syntax
	var out strings.Builder
	fmt.Fprintf(&out, "# gRPC API of weir serve: the proto %s\n\n%s\n`weir serve --grpc-listen 127.0.0.1:8082` serves it, with reflection. "+
		"[weir.proto](weir.proto) is for generators of clients; there are [recipes for four languages](../../../docs/languages.md).\n", file.Package(), errorTable(about))

	of := func(d protoreflect.Descriptor) string {
		return strings.TrimSpace(locations.ByDescriptor(d).LeadingComments)
	}
	for service := range each(file.Services()) {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", service.Name(), of(service))
		for m := range each(service.Methods()) {
			stream := ""
			if m.IsStreamingServer() {
				stream = "stream "
			}
			fmt.Fprintf(&out, "\n### %s\n\n`/%s/%s`: %s, answered by %s%s.\n\n%s\n", m.Name(), service.FullName(), m.Name(),
				linkTo(m.Input()), stream, linkTo(m.Output()), of(m))
		}
	}
	out.WriteString("\n## Messages\n")
	for m := range each(file.Messages()) {
		fmt.Fprintf(&out, "\n### %s\n\n%s\n", m.Name(), of(m))
		if m.Fields().Len() == 0 {
			out.WriteString("\nIt has no fields.\n")
			continue
		}
		out.WriteString("\n| field | type | number | is |\n|---|---|---|---|\n")
		for f := range each(m.Fields()) {
			fmt.Fprintf(&out, "| `%s` | %s | %d | %s |\n", f.Name(), typeOf(f), f.Number(), cell(of(f)))
		}
	}
	out.WriteString("\n## Enumerations\n")
	for e := range each(file.Enums()) {
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| value | number | means |\n|---|---|---|\n", e.Name(), of(e))
		for v := range each(e.Values()) {
			fmt.Fprintf(&out, "| `%s` | %d | %s |\n", v.Name(), v.Number(), cell(of(v)))
		}
	}
	return []byte(out.String()), nil
}

// each returns the descriptors of a list.
func each[D any](list interface {
	Len() int
	Get(i int) D
}) func(yield func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

// linkTo is a link to the section of a message or an enumeration.
func linkTo(d protoreflect.Descriptor) string {
	return fmt.Sprintf("[%s](#%s)", d.Name(), strings.ToLower(string(d.Name())))
}

// typeOf is the type of a field, and whether it may be left out or repeated.
func typeOf(f protoreflect.FieldDescriptor) string {
	name := "`" + f.Kind().String() + "`"
	switch {
	case f.Message() != nil:
		name = linkTo(f.Message())
	case f.Enum() != nil:
		name = linkTo(f.Enum())
	}
	switch {
	case f.IsList():
		return "repeated " + name
	case f.ContainingOneof() != nil && !f.ContainingOneof().IsSynthetic():
		return name + ", one of `" + string(f.ContainingOneof().Name()) + "`"
	case f.HasOptionalKeyword():
		return "optional " + name
	}
	return name
}

var codes = regexp.MustCompile(`(?m)(^ {2,}[A-Z_]+ {2,}\S.*\n)+`)
var code = regexp.MustCompile(`(?m)^ +([A-Z_]+) +(.*)$`)

// errorTable makes a table of the codes of a comment.
func errorTable(comment string) string {
	return codes.ReplaceAllStringFunc(strings.ReplaceAll(comment, "\n ", "\n"), func(lines string) string {
		return "| code | means |\n|---|---|\n" + code.ReplaceAllString(lines, "| `$1` | $2 |")
	})
}
