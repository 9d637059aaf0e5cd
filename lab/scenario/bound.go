package scenario

import (
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file.
const (
	maxBytes = 1 << 20
	maxDepth = 100
	maxRuns  = 10_000
)

// bounded returns what is too large or too deep to be parsed.
func (d *decoder) bounded(text []byte) error {
	if len(text) > maxBytes {
		return d.fail(nil, "the file is larger than %d bytes", maxBytes)
	}
	flow, marks := 0, 0 // brackets that are open; - ? & ! that begin a value on the same line
	line, indents := 0, []int{}
	for _, t := range lexer.Tokenize(string(text)) {
		if t.Position != nil && t.Position.Line != line {
			line, marks = t.Position.Line, 0
			if flow == 0 {
				column := t.Position.Column
				for len(indents) > 0 && indents[len(indents)-1] >= column {
					indents = indents[:len(indents)-1]
				}
				indents = append(indents, column)
			}
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType, token.MappingValueType:
			if flow == 0 {
				marks++
			}
		case token.CollectEntryType:
			marks = 0
		}
		if flow+marks+len(indents) > maxDepth {
			return d.fail(t, "more than %d levels deep", maxDepth)
		}
	}
	return nil
}
