package match

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// A form is what a pattern says about its keys in plain text. It is made by
// reading the pattern from left to right.
type form struct {
	texts []string // each is somewhere in the key
	head  string   // one of them, that the key begins with; or empty
	tail  string   // one of them, that the key ends with; or empty

	// Nothing but what follows matters, if it is plain: that texts, of which
	// there is one at most, is at the key's beginning, at its end, or both.
	plain      bool
	begun      bool // anchored at the beginning
	ended      bool // anchored at the end
	expression *regexp.Regexp

	// While it is read.
	run     []byte // the text so far
	atBegin bool   // run is at the key's beginning
	started bool   // something was read that matters
	gap     bool   // and then something that can be nothing, which matters if more comes
}

// read returns the form of a pattern.
func read(p Pattern) (*form, error) {
	f := &form{plain: true}
	switch p.Kind {
	case Exact:
		f.begin()
		f.literal(p.Text)
		f.end()
	case Glob:
		if err := f.glob(p.Text); err != nil {
			return nil, err
		}
	case Regex:
		re, err := regexp.Compile(p.Text)
		if err != nil {
			return nil, err
		}
		tree, err := syntax.Parse(p.Text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		f.expression = re
		f.regex(tree)
	default:
		return nil, fmt.Errorf("unknown kind %d", p.Kind)
	}
	f.cut(false)
	return f, nil
}

func (f *form) glob(text string) error {
	if !strings.HasPrefix(text, "*") {
		f.begin()
	}
	for rest := text; rest != ""; {
		switch rest[0] {
		case '*':
			f.gap = true
			rest = rest[1:]
			continue
		case '?':
			f.unknown()
			rest = rest[1:]
			continue
		case '\\':
			if rest = rest[1:]; rest == "" {
				return errors.New("ends with a lone backslash")
			}
		}
		n := width(rest)
		f.literal(rest[:n])
		rest = rest[n:]
	}
	if !f.gap {
		f.end()
	}
	if !utf8.ValidString(text) {
		f.plain = false // its bytes may be parts of characters in the key
	}
	return nil
}

func (f *form) regex(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpEmptyMatch:
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			f.unknown()
			return
		}
		for _, r := range re.Rune {
			if r == utf8.RuneError || !utf8.ValidRune(r) { // stands for any invalid byte, or for nothing in UTF-8
				f.unknown()
				continue
			}
			f.literal(string(r))
		}
	case syntax.OpBeginText:
		f.begin()
	case syntax.OpEndText:
		f.end()
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		f.next()
		f.plain = false // but what is on both sides is side by side
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			f.regex(sub)
		}
	case syntax.OpStar, syntax.OpQuest:
		f.gap = true
	case syntax.OpPlus:
		f.regex(re.Sub[0])
		f.gap = true
	case syntax.OpRepeat:
		f.repeat(re)
	default:
		f.unknown()
	}
}

func (f *form) repeat(re *syntax.Regexp) {
	if re.Min > 0 {
		f.regex(re.Sub[0])
	}
	if re.Min > 1 {
		f.unknown()
	}
	f.gap = true
}

// next is called before something that matters.
func (f *form) next() {
	if f.gap && f.started { // at an open end it can as well be nothing
		f.plain = false
		f.cut(false)
	}
	if f.ended {
		f.plain = false
	}
	f.gap, f.started = false, true
}

func (f *form) begin() {
	if f.started {
		f.plain = false
	}
	f.next()
	f.cut(false)
	f.begun, f.atBegin = true, true
}

func (f *form) end() {
	f.next()
	f.cut(true)
	f.ended = true
}

func (f *form) literal(text string) {
	f.next()
	f.run = append(f.run, text...)
}

func (f *form) unknown() {
	f.next()
	f.plain = false
	f.cut(false)
}

// cut ends a run of text.
func (f *form) cut(atEnd bool) {
	if text := string(f.run); text != "" {
		f.texts = append(f.texts, text)
		if f.atBegin {
			f.head = text
		}
		if atEnd {
			f.tail = text
		}
	}
	f.run, f.atBegin = f.run[:0], false
}
