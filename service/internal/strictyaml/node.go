package strictyaml

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Plain takes anchors, aliases and tags off a node. What is left is an alias
// only if there was no anchor of its name before it.
func (f *File) Plain(n ast.Node) ast.Node {
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			// Before the name counts: an alias in its own anchor is unknown.
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

// Undefined returns the error of the first alias that Plain found no anchor
// for; nil if there was none.
func (f *File) Undefined() error {
	if f.unknown == nil {
		return nil
	}
	return f.undefined(f.unknown, "")
}

func (f *File) undefined(alias *ast.AliasNode, path string) *Error {
	return f.Errorf(alias.GetToken(), path, `*%s: there is no &%[1]s before it; if it is a text, quote it`, alias.Value)
}

// Fields returns the entries of a mapping, none of null, and reports what is
// neither.
func (f *File) Fields(n ast.Node, path string) []*ast.MappingValueNode {
	n = f.Plain(n)
	entries, ok := entriesOf(n)
	if !ok && !isNull(n) {
		f.Report(n.GetToken(), path, ": want fields, as in name: value; got %s", show(n))
	}
	return entries
}

// Has tells whether the document is a mapping with a field of this name.
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

// Scalar is the text of a scalar, without its quotes.
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

// start is the token that a node begins with: of fields without braces, the
// first one's name.
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

// isNumber tells whether a scalar can be one: in quotes, it is a text.
func isNumber(n ast.Node) bool {
	if _, block := n.(*ast.LiteralNode); block || !isScalar(n) {
		return false
	}
	kind := n.GetToken().Type
	return kind != token.SingleQuoteType && kind != token.DoubleQuoteType
}

// maxShown bounds how much of a value an error shows, in bytes.
const maxShown = 64

// show is a node as errors show it.
func show(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case nil, *ast.NullNode:
		return "nothing"
	}
	text := Scalar(n)
	if len(text) > maxShown {
		text = text[:maxShown] + "..."
	}
	if isScalar(n) && !isNumber(n) {
		return `"` + text + `"`
	}
	return text
}
