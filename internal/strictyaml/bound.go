package strictyaml

import "github.com/goccy/go-yaml/token"

// tooDeep returns the first token that is more than maxDepth levels deep, for
// which a parser would run out of stack or time.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, marks := 0, 0 // brackets that are open; - ? & ! that begin a value on the same line
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
