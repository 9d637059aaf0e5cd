package strictyaml

import (
	"bytes"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// notUTF8 returns the position of the first byte that is not UTF-8, or nil.
func notUTF8(text []byte) *token.Position {
	position := &token.Position{}
	for line := range bytes.Lines(text) {
		position.Line++
		position.Column = 0
		for rest := line; len(rest) > 0; {
			position.Column++
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				return position
			}
			rest = rest[n:]
		}
	}
	return nil
}

// tooDeep returns the first token that is nested more than maxDepth levels deep, or
// nil. The parser would run out of stack or time for such a text.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, marks := 0, 0 // open brackets; the signs - ? & ! : of the line, each of which begins a value
	line, indents := 0, []int{}
	for _, t := range tokens {
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
			return t
		}
	}
	return nil
}
