package strictyaml

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Plain resolves the anchors, aliases and tags of a node. The result is an alias
// only if no anchor of its name precedes it.
func (f *File) Plain(n ast.Node) ast.Node {
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			// The name is defined after its value: an anchor cannot contain its own alias.
			n = f.Plain(t.Value)
			f.anchors[t.Name.String()] = n
		case *ast.AliasNode:
			to, ok := f.anchors[t.Value.String()]
			if !ok {
				if f.unknown == nil {
					f.unknown = t
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

// Undefined returns an error about the first alias without an anchor that Plain met,
// or nil.
func (f *File) Undefined() error {
	if f.unknown == nil {
		return nil
	}
	return f.undefined(f.unknown, "")
}

func (f *File) undefined(alias *ast.AliasNode, path string) *Error {
	return f.Errorf(alias.GetToken(), path, `*%s: there is no &%[1]s before it; if it is a text, quote it`, alias.Value)
}

// Fields returns the entries of a mapping. Null has none; any other value is an
// error.
func (f *File) Fields(n ast.Node, path string) []*ast.MappingValueNode {
	n = f.Plain(n)
	entries, ok := entriesOf(n)
	if !ok && !isNull(n) {
		f.Report(n.GetToken(), path, ": want fields, as in name: value; got %s", show(n))
	}
	return entries
}

// Has reports whether the document is a mapping with the named field.
func (f *File) Has(name string) bool {
	entries, _ := entriesOf(f.Plain(f.Body))
	return slices.ContainsFunc(entries, func(e *ast.MappingValueNode) bool { return Scalar(f.Plain(e.Key)) == name })
}

func entriesOf(n ast.Node) (entries []*ast.MappingValueNode, ok bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	default:
		return nil, false
	}
}

// Scalar returns the text of a scalar, without its quotes.
func Scalar(n ast.Node) string {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value
	case *ast.LiteralNode:
		return s.Value.Value
	default:
		return n.GetToken().Value
	}
}

// start returns the first token of a node. For a mapping without braces, it is the
// name of the first field.
func start(n ast.Node) *token.Token {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return m.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return m.Key.GetToken()
	}
	return n.GetToken()
}

func isScalar(n ast.Node) bool {
	_, ok := n.(ast.ScalarNode)
	return ok
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return n == nil || ok
}

// isNumber reports whether a scalar may be a number. One in quotes is text.
func isNumber(n ast.Node) bool {
	if _, block := n.(*ast.LiteralNode); block || !isScalar(n) {
		return false
	}
	kind := n.GetToken().Type
	return kind != token.SingleQuoteType && kind != token.DoubleQuoteType
}

// Short returns the first 64 bytes of a text, for an error message.
func Short(text string) string {
	if len(text) <= 64 {
		return text
	}
	return text[:64] + "..."
}

// show returns a node for an error message.
func show(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case nil, *ast.NullNode:
		return "nothing"
	}
	text := Short(Scalar(n))
	if isScalar(n) && !isNumber(n) {
		return `"` + text + `"`
	}
	return text
}
