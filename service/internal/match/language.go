package match

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// A language is the set of the keys that a pattern matches, as an automaton over a whole key.
type language struct{ *syntax.Prog }

// compileLanguage returns the language of a pattern. Of a pattern of the kind Entries, it is
// larger: the keys of all descriptors of the domain. An error is from package syntax.
func compileLanguage(p Pattern) (language, error) {
	expr := p.Text
	switch p.Kind {
	case Exact:
		expr = `\A` + regexp.QuoteMeta(p.Text) + `\z`
	case Glob:
		expr = `\A` + globExpression(p.Text) + `\z`
	case Entries:
		domain, _, _ := strings.Cut(p.Text, "|")
		if strings.Contains(domain, `\`) { // escapes of descriptors and of globs
			domain = "*"
		}
		expr = `\A` + globExpression(domain) + `\|(?s:.*)\z`
	case Regex:
		expr = `\A(?s:.*)(?:` + p.Text + `)(?s:.*)\z`
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return language{}, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	return language{prog}, err
}

// globExpression writes a glob as a regular expression.
func globExpression(glob string) string {
	var b strings.Builder
	for rest := glob; rest != ""; {
		switch rest[0] {
		case '*':
			b.WriteString(`(?s:.*)`)
			rest = rest[1:]
			continue
		case '?':
			b.WriteString(`(?s:.)`)
			rest = rest[1:]
			continue
		case '\\':
			rest = rest[1:]
		}
		n := width(rest)
		b.WriteString(regexp.QuoteMeta(rest[:n]))
		rest = rest[n:]
	}
	return b.String()
}

// A state is the places of an automaton, in ascending order, before its next character.
type state []uint32

// begin returns the state before the first character.
func (l language) begin() state { return state{uint32(l.Start)} }

// next returns the state after a character, and reports whether the text can also end before
// it. A character of -1 is the end.
func (l language) next(s state, before, char rune, steps *int) (after state, ends bool) {
	context := syntax.EmptyOpContext(before, char)
	seen := map[uint32]bool{}
	todo := slices.Clone(s)
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		*steps++
		inst := &l.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			todo = append(todo, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^context == 0 {
				todo = append(todo, inst.Out)
			}
		case syntax.InstMatch:
			ends = true
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if char >= 0 && inst.MatchRune(char) {
				after = append(after, inst.Out)
			}
		}
	}
	slices.Sort(after)
	return slices.Compact(after), ends
}

// alphabet returns characters of keys, none below from, such that languages treat each other such character as one of
// them.
func alphabet(from rune, all ...language) []rune {
	bounds := []rune{'0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, ' ', 0x7f, 0xa0, 0xd800, 0xe000}
	for _, r := range unicode.White_Space.R16 {
		bounds = append(bounds, rune(r.Lo), rune(r.Hi)+1)
	}
	var insts []*syntax.Inst
	for _, l := range all {
		for i := range l.Inst {
			inst := &l.Inst[i]
			if inst.Op != syntax.InstRune && inst.Op != syntax.InstRune1 {
				continue
			}
			insts = append(insts, inst)
			bounds = appendBounds(bounds, inst)
		}
	}
	slices.Sort(bounds)
	known := map[string]bool{}
	var chars []rune
	for _, r := range slices.Compact(bounds) {
		if r < from || !isKeyCharacter(r) {
			continue
		}
		id := []byte{'0'}
		if syntax.IsWordChar(r) {
			id[0] = 'w'
		} else if unicode.IsSpace(r) {
			id[0] = 's'
		}
		for _, inst := range insts {
			if inst.MatchRune(r) {
				id = append(id, '1')
			} else {
				id = append(id, '0')
			}
		}
		if !known[string(id)] {
			known[string(id)] = true
			chars = append(chars, r)
		}
	}
	return chars
}

// appendBounds appends where the ranges of an instruction begin, and where they have ended.
func appendBounds(bounds []rune, inst *syntax.Inst) []rune {
	if len(inst.Rune) == 1 {
		first := inst.Rune[0]
		bounds = append(bounds, first, first+1)
		if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
			for r := unicode.SimpleFold(first); r != first; r = unicode.SimpleFold(r) {
				bounds = append(bounds, r, r+1)
			}
		}
		return bounds
	}
	for i := 0; i+1 < len(inst.Rune); i += 2 {
		bounds = append(bounds, inst.Rune[i], inst.Rune[i+1]+1)
	}
	return bounds
}

func isKeyCharacter(r rune) bool {
	return r <= unicode.MaxRune && !unicode.IsControl(r) && !(r >= 0xd800 && r < 0xe000)
}
