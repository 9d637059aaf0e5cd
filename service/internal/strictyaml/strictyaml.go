// Package strictyaml reads configuration files in YAML or JSON into Go values, and
// reports all mistakes of a file at once, each with its line and column.
//
// The strict mode of goccy/go-yaml is not enough for that: it stops at the first
// error, and accepts 1.5 for an int (as 1), 010 (as 8), numbers in quotes, and
// null for any field. So this package takes goccy's parser, which also rejects
// duplicate fields, and decodes the syntax tree. It remembers the position of each
// field, so that a later check of the values can report it too.
//
// The name of a field is in its yaml tag or, without one, in its json tag. A field
// without both tags cannot be set.
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

// An Error is a mistake in a file.
type Error struct {
	File         string
	Line, Column int    // from 1
	Path         string // of the field, such as rules[3].burst; empty if there is none
	What         string // the message, including the path
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

// Bounds limit the size of a file.
type Bounds struct {
	Bytes  int
	Values int // including values that aliases repeat
}

// maxDepth bounds the nesting of values.
const maxDepth = 100

// A File is a parsed document, and the errors found in it.
type File struct {
	Name string   // for errors
	Body ast.Node // nil if there is no document in the file
	// Null accepts null for every field, as its zero value. If false, null is only accepted
	// for pointers and structs.
	Null bool
	// YAML11 reads values as programs do that use gopkg.in/yaml.v2: 010 is 8, 0x10 is 16, yes
	// is true, and a field that follows a merge key is added to the merged one if both are
	// structs; see also Fields.
	YAML11 bool
	// Special has a decoder for each type with a syntax that Decode does not know.
	// It reports mistakes by Report.
	Special map[reflect.Type]func(n ast.Node, v reflect.Value, path string)

	bounds  Bounds
	at      map[string]*token.Token // by path
	aliases map[*ast.AliasNode]ast.Node
	unknown *ast.AliasNode // the first alias without an anchor before it
	values  int            // since the last Reset
	errs    []*Error
	more    int // errors beyond maxErrors
	fields  map[reflect.Type]map[string][]int
}

// Parse parses the content of a file. The name is for errors. The error is an
// *Error if it has a position.
func Parse(name string, text []byte, b Bounds) (*File, error) {
	f := &File{Name: name, bounds: b, aliases: map[*ast.AliasNode]ast.Node{}, fields: map[reflect.Type]map[string][]int{}}
	f.Reset()
	if len(text) > b.Bytes {
		return nil, f.Errorf(nil, "", "the file is larger than %d bytes", b.Bytes)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.IndexByte(text, '\r') >= 0 { // \r\n and \r end lines, too
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if p := notUTF8(text); p != nil {
		return nil, f.Errorf(&token.Token{Position: p}, "", "not UTF-8: save it in that encoding")
	}
	tokens := lexer.Tokenize(string(text))
	if t := tooDeep(tokens); t != nil {
		return nil, f.Errorf(t, "", "more than %d levels deep", maxDepth)
	}
	for _, t := range tokens {
		if t.Type == token.TagType && strings.HasSuffix(t.Value, "!binary") {
			return nil, f.Errorf(t, "", "%s: is not supported: write the text itself", t.Value)
		}
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		if e, ok := errors.AsType[yaml.Error](err); ok {
			hint := ""
			if t := e.GetToken(); t != nil && (t.Type == token.AliasType || t.Prev != nil && t.Prev.Type == token.AliasType) {
				hint = "; a text that begins with * needs quotes"
			}
			return nil, f.Errorf(e.GetToken(), "", "not YAML: %s%s", e.GetMessage(), hint)
		}
		return nil, fmt.Errorf("%s: not YAML: %w", name, err)
	}
	// A line such as %YAML 1.2 is a document for the parser.
	docs := slices.DeleteFunc(tree.Docs, func(d *ast.DocumentNode) bool {
		_, directive := d.Body.(*ast.DirectiveNode)
		return directive
	})
	switch len(docs) {
	case 0:
	case 1:
		f.Body = docs[0].Body
	default:
		return nil, f.Errorf(docs[1].Start, "", "a second document begins here: want one")
	}
	if loop := f.link(f.Body, map[string]ast.Node{}, map[ast.Node]bool{}); loop != nil {
		return nil, f.Errorf(loop.GetToken(), "", "*%s: is inside of &%[1]s", loop.Value)
	}
	return f, nil
}

// Reset discards the positions of fields, and the errors.
func (f *File) Reset() {
	f.at, f.values, f.errs, f.more = map[string]*token.Token{}, 0, nil, 0
}

// Errorf returns an error at a token, or at the beginning of the file if the token
// is nil.
func (f *File) Errorf(t *token.Token, path, format string, args ...any) *Error {
	e := &Error{File: f.Name, Line: 1, Column: 1, Path: path, What: printable(fmt.Sprintf(format, args...))}
	if t != nil && t.Type == token.ImplicitNullType && t.Prev != nil {
		t = t.Prev // a missing value may have no position
	}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// maxErrors bounds the errors that are reported for one file.
const maxErrors = 20

// Report records an error in the field at path. The message is appended to the
// path, as in ": must be given" and " = 5: must be less".
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

// Wrong reports whether the field at path, or a field inside it, has an error.
func (f *File) Wrong(path string) bool {
	return slices.ContainsFunc(f.errs, func(e *Error) bool {
		rest, in := strings.CutPrefix(e.Path, path)
		return in && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Err returns the recorded errors, joined in the order of their positions, or nil.
// If there are more than maxErrors, the last line says how many.
func (f *File) Err() error {
	if len(f.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(f.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var all []error
	for _, e := range f.errs {
		all = append(all, e)
	}
	if f.more > 0 {
		all = append(all, fmt.Errorf("%s: and %d more errors", f.Name, f.more))
	}
	return errors.Join(all...)
}

// Where returns the token of the field at path or, if the file does not have that
// field, of the innermost value around it.
func (f *File) Where(path string) *token.Token {
	for {
		if t, ok := f.at[path]; ok || path == "" {
			return t
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Place returns file:line:column of what Where returns.
func (f *File) Place(path string) string {
	at := f.Errorf(f.Where(path), path, "")
	return fmt.Sprintf("%s:%d:%d", at.File, at.Line, at.Column)
}

// HasValue reports whether Decode has read a value of the field at path.
func (f *File) HasValue(path string) bool { return f.at[path] != nil }

// maxText bounds a message, in bytes.
const maxText = 1000

// printable escapes all that a terminal would not show as one line of text.
func printable(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
