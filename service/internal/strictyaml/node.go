package strictyaml

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// link finds the node of each alias in a node, in the order of the text. Anchors are the nodes
// by the names that the text so far has given to them; open has those whose end has not come. It
// returns the first alias inside of its own node, or nil.
func (f *File) link(n ast.Node, anchors map[string]ast.Node, open map[ast.Node]bool) (loop *ast.AliasNode) {
	var inside []ast.Node
	switch t := n.(type) {
	case *ast.AnchorNode:
		anchors[t.Name.String()] = t.Value
		open[t.Value] = true
		loop = f.link(t.Value, anchors, open)
		delete(open, t.Value)
		return loop
	case *ast.AliasNode:
		if to, ok := anchors[t.Value.String()]; ok && open[to] {
			return t
		} else if ok {
			f.aliases[t] = to
		}
	case *ast.TagNode:
		inside = []ast.Node{t.Value}
	case *ast.MappingKeyNode:
		inside = []ast.Node{t.Value}
	case *ast.SequenceNode:
		inside = t.Values
	default:
		entries, _ := entriesOf(n)
		for _, e := range entries {
			inside = append(inside, e.Key, e.Value)
		}
	}
	for _, n := range inside {
		if loop := f.link(n, anchors, open); loop != nil {
			return loop
		}
	}
	return nil
}

// Plain resolves the anchors, aliases and tags of a node. The result is an alias
// only if no anchor of its name precedes it.
func (f *File) Plain(n ast.Node) ast.Node {
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			n = t.Value
		case *ast.AliasNode:
			to, ok := f.aliases[t]
			if !ok {
				if f.unknown == nil {
					f.unknown = t
				}
				return n
			}
			n = to
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

// Fields returns the entries of a mapping, and in place of a merge key, <<, the entries of
// the mappings that it names. Null has none; any other value is an error.
//
// The mapping itself has precedence over what is merged, and of several merged mappings the
// first one. With YAML11, the result has all entries, so that later ones have precedence: the
// mapping's own ones have it only behind the merge key.
func (f *File) Fields(n ast.Node, path string) []*ast.MappingValueNode {
	n = f.Plain(n)
	entries, ok := entriesOf(n)
	if alias, unknown := n.(*ast.AliasNode); unknown {
		f.add(f.undefined(alias, path))
	} else if !ok && !isNull(n) {
		f.Report(n.GetToken(), path, ": want fields, as in name: value; got %s", show(n))
	}
	if !slices.ContainsFunc(entries, isMerge) {
		return entries
	}
	given := map[string]bool{}
	for _, e := range entries {
		if !isMerge(e) {
			given[f.name(e)] = true
		}
	}
	var all []*ast.MappingValueNode
	for _, e := range entries {
		if !isMerge(e) {
			all = append(all, e)
			continue
		}
		for _, e := range f.merged(e.Value, Join(path, "<<")) {
			switch name := f.name(e); {
			case f.YAML11:
				all = append(all, e)
			case !given[name]:
				given[name] = true
				all = append(all, e)
			}
		}
	}
	return all
}

// name returns the name of a field.
func (f *File) name(e *ast.MappingValueNode) string { return Scalar(f.Plain(e.Key)) }

func isMerge(e *ast.MappingValueNode) bool {
	_, ok := e.Key.(*ast.MergeKeyNode)
	return ok
}

// merged returns the entries of the value of a merge key, a mapping or a list of mappings.
func (f *File) merged(n ast.Node, path string) (entries []*ast.MappingValueNode) {
	sources := []ast.Node{n}
	if list, ok := f.Plain(n).(*ast.SequenceNode); ok {
		sources = slices.Clone(list.Values)
		if f.YAML11 {
			slices.Reverse(sources)
		}
	}
	for _, source := range sources {
		if !f.count(source, path) {
			return nil
		}
		if isNull(f.Plain(source)) {
			f.Report(source.GetToken(), path, ": want fields, as in name: value; got nothing")
		}
		for _, e := range f.Fields(source, path) {
			if !f.count(source, path) {
				return nil
			}
			entries = append(entries, e)
		}
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

// isPlain reports whether a scalar may be a number or a boolean. One in quotes is text.
func isPlain(n ast.Node) bool {
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
	if isScalar(n) && !isPlain(n) {
		return `"` + text + `"`
	}
	return text
}
