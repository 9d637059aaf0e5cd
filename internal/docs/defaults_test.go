package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/doc"
	"go/printer"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/pagetest"
)

var update = flag.Bool("update", false, "write the tables of the library into docs/defaults.md")

// docs/defaults.md has the defaults of all fields, by the comments of the code, and the values of the constants in them.
func TestDefaults(t *testing.T) {
	l := load(t)
	var fields, bounds strings.Builder
	rows := 0
	for _, p := range l.public {
		files := l.parse(t, p)
		d, err := doc.NewFromFiles(l.FileSet, files, p.ImportPath)
		testrig.Must(t, err)
		types, err := l.Import(p.ImportPath)
		testrig.Must(t, err)
		named := defaults(d, types, l.FileSet)
		var table strings.Builder
		for _, typ := range d.Types {
			for _, f := range structFields(typ) {
				if when := zero.FindString(f.text); when != "" {
					fmt.Fprintf(&table, "| `%s.%s` | %s | %s |\n", typ.Name, f.name, cell(first(f.text)), cell(named(value(f.text))))
					rows++
				}
			}
		}
		if table.Len() > 0 {
			fmt.Fprintf(&fields, "### %s\n\n| field | is | if zero |\n|---|---|---|\n%s\n", strings.TrimPrefix(p.ImportPath, ours+"/"), &table)
		}
		for _, c := range constants(d, types) {
			fmt.Fprintf(&bounds, "| `%s.%s` | %s | %s |\n", d.Name, c.name, c.value, cell(c.text))
		}
	}
	if rows < 80 {
		t.Errorf("%d fields", rows)
	}
	page := filepath.Join(root, "docs", "defaults.md")
	pagetest.Keep(t, page, "the library", strings.TrimSuffix(fields.String(), "\n"), *update)
	pagetest.Keep(t, page, "bounds", "| constant | value | is |\n|---|---|---|\n"+bounds.String(), *update)
}

// zero begins the sentence of a comment that tells a field's default.
var zero = regexp.MustCompile(`(^|[.:;] )If (it is )?(zero|nil|empty)( or less|,? or returns (zero|nil)|, or for a limiter that is nil)?,? `)

// first is the first sentence of a comment, without the default.
func first(text string) string {
	if at := zero.FindStringIndex(text); at != nil && at[0] == 0 {
		return ""
	}
	if sentence, _, found := strings.Cut(text, ". "); found {
		return sentence + "."
	}
	return text
}

// value returns the part of a comment about the default.
func value(text string) string {
	text = text[zero.FindStringIndex(text)[1]:]
	if sentence, _, found := strings.Cut(text, ". "); found {
		text = sentence
	}
	return strings.TrimSuffix(text, ".")
}

// A field has its comments in one line.
type field struct{ name, text string }

func structFields(typ *doc.Type) (fields []field) {
	for _, spec := range typ.Decl.Specs {
		s, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			text := f.Doc.Text()
			if text == "" {
				text = f.Comment.Text()
			}
			for _, name := range f.Names {
				if name.IsExported() {
					fields = append(fields, field{name.Name, strings.Join(strings.Fields(text), " ")})
				}
			}
		}
	}
	return fields
}

// defaults returns a function that gives names such as DefaultQueue in a text their values.
func defaults(d *doc.Package, pkg *types.Package, fset *token.FileSet) func(string) string {
	values := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok && c.Exported() {
			values[name] = show(name, c)
		}
	}
	for _, v := range d.Vars {
		for _, spec := range v.Decl.Specs {
			spec := spec.(*ast.ValueSpec)
			if list, ok := spec.Values[0].(*ast.CompositeLit); ok {
				var items []string
				for _, item := range list.Elts {
					var text strings.Builder
					printer.Fprint(&text, fset, item)
					items = append(items, text.String())
				}
				values[spec.Names[0].Name] = "`" + strings.Join(items, "`, `") + "`"
			}
		}
	}
	return func(text string) string {
		return defaultName.ReplaceAllStringFunc(text, func(name string) string {
			if values[name] == "" {
				return name
			}
			return values[name] + " (`" + name + "`)"
		})
	}
}

var defaultName = regexp.MustCompile(`\bDefault\w+`)

// show writes the value of a constant as people do.
func show(name string, c *types.Const) string {
	n, whole := constant.Int64Val(constant.ToInt(c.Val()))
	switch {
	case c.Val().Kind() == constant.String:
		return "`" + c.Val().ExactString() + "`"
	case !whole:
		return c.Val().String()
	case types.TypeString(c.Type(), nil) == "time.Duration":
		return duration(time.Duration(n))
	case size.MatchString(name) && n >= 1<<10:
		unit := 0
		for ; n%(1<<10) == 0; unit++ {
			n >>= 10
		}
		return fmt.Sprintf("%d %s", n, []string{"bytes", "KiB", "MiB", "GiB", "TiB"}[unit])
	case n == 1<<31-1:
		return "2³¹ - 1"
	case n == 1<<42-1:
		return "2⁴² - 1"
	}
	return thousands(n)
}

// size matches the names of constants that are numbers of bytes.
var size = regexp.MustCompile(`Memory|Bytes|Body`)

func duration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d%unit.d == 0 {
			return fmt.Sprint(int64(d/unit.d), " ", unit.name)
		}
	}
	return d.String()
}

func thousands(n int64) string {
	text := fmt.Sprint(n)
	if len(text) < 5 {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

type bound struct{ name, value, text string }

// constants returns the constants with a number, a size or a time, besides defaults.
func constants(d *doc.Package, pkg *types.Package) (bounds []bound) {
	for _, v := range d.Consts {
		if !basic(pkg, v.Names[0]) {
			continue
		}
		for _, spec := range v.Decl.Specs {
			spec := spec.(*ast.ValueSpec)
			for _, name := range spec.Names {
				c := pkg.Scope().Lookup(name.Name).(*types.Const)
				if n, ok := constant.Int64Val(constant.ToInt(c.Val())); !name.IsExported() || strings.HasPrefix(name.Name, "Default") || !ok || n >= 1<<60 {
					continue
				}
				text := spec.Doc.Text() + spec.Comment.Text()
				if text == "" {
					text = v.Doc
				}
				bounds = append(bounds, bound{name.Name, show(name.Name, c), about(strings.Join(strings.Fields(text), " "), name.Name)})
			}
		}
	}
	return bounds
}

// about is the first sentence of a comment that has a name, or else its first one.
func about(text, name string) string {
	for _, sentence := range strings.SplitAfter(text, ". ") {
		if strings.Contains(sentence, name) {
			return strings.TrimSpace(sentence)
		}
	}
	return first(text)
}

// basic says whether a constant has no type of its package, as the values of an enumeration have.
func basic(pkg *types.Package, name string) bool {
	c, ok := pkg.Scope().Lookup(name).(*types.Const)
	if !ok {
		return false
	}
	named, ok := c.Type().(*types.Named)
	return !ok || named.Obj().Pkg() != pkg
}

// cell is a text in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
