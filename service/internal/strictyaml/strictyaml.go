// Package strictyaml reads YAML into Go values, strictly: a field that is not
// known, is given twice or is of another kind is an error with its place. It
// goes on after an error, so that all of a file's are told at once; and it
// remembers where each field came from, so that later complaints can say so.
//
// A field is called as its yaml tag says or, if it has none, its json tag; one
// that has neither cannot be set. JSON is read too, being YAML.
package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// An Error is one thing that is wrong with a file.
type Error struct {
	File         string
	Line, Column int    // from 1
	Path         string // of the field, such as rules[3].burst; empty if it is of none
	What         string // is wrong, and what would be right; the field's path included
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

// Bounds are those of a file.
type Bounds struct {
	Bytes  int
	Values int // with all aliases put in
}

// maxDepth bounds how deep values are within values.
const maxDepth = 100

// A File is a document that is being read.
type File struct {
	Name string   // for errors
	Body ast.Node // nil if there is not exactly one document in the file
	// Null says that null is fine for every field, and leaves it as it is, as
	// package encoding/json has it. Else it is for pointers and structs only.
	Null bool
	// Special reads the types that are written in a way of their own. It reports
	// what is wrong by Report.
	Special map[reflect.Type]func(n ast.Node, v reflect.Value, path string)

	bounds  Bounds
	at      map[string]*token.Token // by path
	anchors map[string]ast.Node
	unknown *ast.AliasNode // the first without an anchor before it
	values  int            // since the last Reset
	errs    []*Error
	more    int // errors beyond maxErrors
	fields  map[reflect.Type]map[string][]int
}

// Parse reads the content of a file, whose name is for errors. The error is an
// *Error, if there is a place for it.
func Parse(name string, text []byte, b Bounds) (*File, error) {
	f := &File{Name: name, bounds: b, anchors: map[string]ast.Node{}, fields: map[reflect.Type]map[string][]int{}}
	f.Reset()
	if len(text) > b.Bytes {
		return nil, f.Errorf(nil, "", "the file is larger than %d bytes", b.Bytes)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.IndexByte(text, '\r') >= 0 { // YAML's line ends are three; one is enough to count by
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if p := notUTF8(text); p != nil {
		return nil, f.Errorf(&token.Token{Position: p}, "", "not UTF-8: save it in that encoding")
	}
	tokens := lexer.Tokenize(string(text))
	if t := tooDeep(tokens); t != nil {
		return nil, f.Errorf(t, "", "more than %d levels deep", maxDepth)
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if e, ok := errors.AsType[yaml.Error](err); ok {
			hint := ""
			if t := e.GetToken(); t != nil && t.Type == token.AliasType {
				hint = "; a text that begins with * needs quotes"
			}
			return nil, f.Errorf(e.GetToken(), "", "not YAML: %s%s", e.GetMessage(), hint)
		}
		return nil, fmt.Errorf("%s: not YAML: %w", name, err)
	}
	if len(tree.Docs) == 1 {
		f.Body = tree.Docs[0].Body
	}
	return f, nil
}

// Reset forgets where fields came from, and what was reported.
func (f *File) Reset() {
	f.at, f.values, f.errs, f.more = map[string]*token.Token{}, 0, nil, 0
}

// Errorf returns the error that is at a token, or at the file's beginning if
// it is nil.
func (f *File) Errorf(t *token.Token, path, format string, args ...any) *Error {
	e := &Error{File: f.Name, Line: 1, Column: 1, Path: path, What: printable(fmt.Sprintf(format, args...))}
	if t != nil && t.Type == token.ImplicitNullType && t.Prev != nil {
		t = t.Prev // where nothing is, there may be no place
	}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// maxErrors bounds how many errors a file has: who has read twenty corrects
// these first.
const maxErrors = 20

// Report says that the field of a path is wrong. What is wrong begins where the
// path ends, as in ": must be given" and " = 5: must be less".
func (f *File) Report(t *token.Token, path, format string, args ...any) {
	f.add(f.Errorf(t, path, "%s"+format, append([]any{cmp.Or(path, "the document")}, args...)...))
}

func (f *File) add(e *Error) {
	if len(f.errs) == maxErrors {
		f.more++
		return
	}
	f.errs = append(f.errs, e)
}

// Wrong tells whether something in the field of a path was reported.
func (f *File) Wrong(path string) bool {
	return slices.ContainsFunc(f.errs, func(e *Error) bool {
		rest, in := strings.CutPrefix(e.Path, path)
		return in && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Err returns all that was reported, joined in the order of their places; nil
// if nothing was. If there are more than can be told, it says so at the end.
func (f *File) Err() error {
	if len(f.errs) == 0 {
		return nil
	}
	var all []error
	for _, e := range slices.SortedStableFunc(slices.Values(f.errs), func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	}) {
		all = append(all, e)
	}
	if f.more > 0 {
		all = append(all, fmt.Errorf("%s: and %d more errors", f.Name, f.more))
	}
	return errors.Join(all...)
}

// Where returns the token of a path or, if it was not given, of what holds it.
func (f *File) Where(path string) *token.Token {
	for {
		if t, ok := f.at[path]; ok || path == "" {
			return t
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// maxText bounds what an error says, in bytes.
const maxText = 1000

// printable returns a text for one line of a terminal.
func printable(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}
