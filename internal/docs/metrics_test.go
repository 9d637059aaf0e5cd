package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pagetest"
	"github.com/weir-go/weir/internal/testrig"
)

// docs/metrics.md has the metrics that the code defines, and the reasons of rejections.
func TestMetrics(t *testing.T) {
	page := filepath.Join(root, "docs", "metrics.md")
	pagetest.Keep(t, page, "reasons", reasons(t), *update)
	rows := map[string]string{}
	size := map[string]int{} // of groups
	for _, m := range metrics(t) {
		rows[m.name] = m.row()
		size[groupOf(m.name)]++
	}
	if len(rows) < 150 {
		t.Errorf("%d metrics", len(rows))
	}
	tables := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		group := groupOf(name)
		if size[group] < 4 {
			group = "weir"
		}
		tables[group] += rows[name]
	}
	var all strings.Builder
	for _, group := range slices.Sorted(maps.Keys(tables)) {
		fmt.Fprintf(&all, "### %s\n\n| metric | kind | labels | is |\n|---|---|---|---|\n%s\n", group, tables[group])
	}
	pagetest.Keep(t, page, "metrics", strings.TrimSuffix(all.String(), "\n"), *update)
}

// reasons is a table of the constants of weir.Reason, with their comments.
func reasons(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "errors.go"), nil, parser.ParseComments)
	testrig.Must(t, err)
	var table strings.Builder
	table.WriteString("| reason | in Go | the work |\n|---|---|---|\n")
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		if first, ok := group.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || first.Name != "Reason" {
			continue
		}
		for i, s := range group.Specs {
			spec := s.(*ast.ValueSpec)
			fmt.Fprintf(&table, "| `%v` | `weir.%s` | %s |\n", weir.Reason(i+1), spec.Names[0].Name, cell(strings.TrimSpace(spec.Comment.Text())))
		}
	}
	return table.String()
}

// A metricOf is a metric that the code defines.
type metricOf struct {
	name, kind, help string
	labels           []string
}

func (m metricOf) row() string {
	labels := "–"
	if len(m.labels) > 0 {
		labels = "`" + strings.Join(m.labels, "`, `") + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, cell(m.help))
}

// groupOf returns the first two words of a name.
func groupOf(name string) string { return strings.Join(strings.Split(name, "_")[:2], "_") }

var metricName = regexp.MustCompile(`^weir_[a-z0-9_]+$`)

// metrics are the definitions in the code: a call or a literal with the name, the help, and the labels.
func metrics(t *testing.T) (all []metricOf) {
	others := []string{"lab", "bench", "examples", "deploy", "tools", "site", "testdata"}
	testrig.Must(t, filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (slices.Contains(others, e.Name()) || e.Name()[0] == '.' && name != root) {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			function, args := ast.Expr(nil), []ast.Expr(nil)
			switch n := n.(type) {
			case *ast.CallExpr:
				function, args = n.Fun, n.Args
			case *ast.CompositeLit:
				function, args = n.Type, n.Elts
			}
			if m, ok := defined(last(function), args); ok {
				all = append(all, m)
			}
			return true
		})
		return nil
	}))
	return all
}

// last returns the last identifier of an expression such as metric.Counter.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// defined returns the metric that the arguments of a function, or the fields of a literal, define.
func defined(function string, args []ast.Expr) (m metricOf, ok bool) {
	m.kind = strings.ToLower(strings.TrimSuffix(function, "Opts"))
	var texts []string
	for _, a := range args {
		if pair, ok := a.(*ast.KeyValueExpr); ok {
			a = pair.Value
		}
		switch a := a.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(a.Value); err == nil && a.Kind == token.STRING {
				texts = append(texts, text)
			}
		case *ast.Ident:
			if a.Name == "Counter" || a.Name == "Gauge" || a.Name == "Histogram" {
				m.kind = strings.ToLower(a.Name)
			}
		case *ast.CompositeLit:
			for _, l := range a.Elts {
				if label, ok := l.(*ast.BasicLit); ok && label.Kind == token.STRING {
					m.labels = append(m.labels, strings.Trim(label.Value, `"`))
				}
			}
		}
	}
	help := slices.IndexFunc(texts, func(s string) bool { return strings.HasSuffix(s, ".") })
	if len(texts) == 0 || help < 1 || !metricName.MatchString(texts[0]) {
		return m, false
	}
	m.name, m.help = texts[0], texts[help]
	m.labels = append(m.labels, texts[help+1:]...)
	return m, slices.Contains([]string{"counter", "gauge", "histogram"}, m.kind)
}
