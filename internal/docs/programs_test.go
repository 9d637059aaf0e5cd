// Package docs tests README and the pages of docs: their programs, links and tables.
package docs

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

// A block of Go in a page. One that is not a whole file is the body of a function: a comment of the page before it
// has the parameters and results, <!-- go: (ctx context.Context) error -->. Imports are added by the names of
// packages, and … stands for code that is left out.
var block = regexp.MustCompile("(?s)(?:<!-- go: ([^\n]*) -->\n)?```go\n(.*?)```")

type goBlock struct {
	at              string // page:line
	signature, code string
}

func blocks(t *testing.T) (all []goBlock) {
	t.Helper()
	for _, page := range pages(t) {
		text := read(t, page)
		for _, m := range block.FindAllStringSubmatchIndex(text, -1) {
			b := goBlock{at: fmt.Sprintf("%s:%d", page, 1+strings.Count(text[:m[4]], "\n")), signature: "()", code: text[m[4]:m[5]]}
			if m[2] >= 0 {
				b.signature = text[m[2]:m[3]]
			}
			all = append(all, b)
		}
	}
	return all
}

// name is the name of the block's package.
func (b goBlock) name() string {
	return strings.NewReplacer("/", "_", ".", "_", ":", "_").Replace(b.at)
}

func (b goBlock) whole() bool { return strings.HasPrefix(b.code, "package ") }

// Programs are complete: the compiler takes them as they are printed, and those without a server run.
func TestPrograms(t *testing.T) {
	l := load(t)
	here, err := os.Getwd()
	testrig.Must(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	dir := t.TempDir()
	var programs []goBlock
	for _, b := range blocks(t) {
		if !b.whole() {
			continue
		}
		file := filepath.Join(dir, b.name()+".go")
		testrig.Must(t, os.WriteFile(file, []byte(b.code), 0o600))
		overlay.Replace[filepath.Join(here, b.name(), "main.go")] = file // in this module, without a file in it
		programs = append(programs, b)
	}
	if len(programs) < 4 {
		t.Fatalf("%d programs", len(programs))
	}
	text, err := json.Marshal(overlay)
	testrig.Must(t, err)
	at := filepath.Join(dir, "overlay.json")
	testrig.Must(t, os.WriteFile(at, text, 0o600))
	build := []string{"build", "-overlay", at, "-o", dir + string(filepath.Separator)}
	for _, b := range programs {
		build = append(build, "./"+b.name())
	}
	if out, err := l.command(".", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, b := range programs {
		t.Run(b.at, func(t *testing.T) {
			if formatted, err := format.Source([]byte(b.code)); err != nil || string(formatted) != b.code {
				t.Errorf("not formatted, %v", err)
			}
			if strings.Contains(b.code, "ListenAndServe") {
				return
			}
			if out, err := exec.Command(filepath.Join(dir, b.name())).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Other code is correct, too, in a function with the parameters and results that the page says.
func TestFragments(t *testing.T) {
	l := load(t)
	checked := 0
	for _, b := range blocks(t) {
		if b.whole() {
			continue
		}
		checked++
		t.Run(b.at, func(t *testing.T) {
			for _, err := range l.check(b) {
				t.Errorf("%v\n%s%s", err, b.signature, b.code)
			}
		})
	}
	if checked < 10 {
		t.Errorf("%d fragments", checked)
	}
}

// check type-checks a fragment.
func (l *library) check(b goBlock) (errs []error) {
	var imports, body strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(b.code, "…", "")) {
		if strings.HasPrefix(line, "import ") {
			imports.WriteString(line)
			line = "\n"
		}
		body.WriteString(line)
	}
	source := func(imports string) string {
		return "package fragment\n" + imports + "func _" + b.signature + "{\n" + body.String() + "\n}\n"
	}
	file, err := parser.ParseFile(l.FileSet, b.at, source(imports.String()), parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && l.byName[x.Name] != "" && !strings.Contains(imports.String(), "/"+x.Name+`"`) {
				names = append(names, x.Name)
			}
		}
		return true
	})
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(&imports, "import %s %q\n", name, l.byName[name])
	}
	if file, err = parser.ParseFile(l.FileSet, b.at, source(imports.String()), parser.SkipObjectResolution); err != nil {
		return []error{err}
	}
	cfg := types.Config{Importer: l, Error: func(err error) {
		if msg := err.(types.Error).Msg; !strings.HasPrefix(msg, "declared and not used: ") && !strings.HasSuffix(msg, " imported and not used") && msg != "missing return" {
			errs = append(errs, err)
		}
	}}
	cfg.Check("fragment", l.FileSet, []*ast.File{file}, nil) // the errors went to cfg.Error
	return errs
}
