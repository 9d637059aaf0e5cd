package docs

import (
	"go/ast"
	"go/token"
	"testing"
)

// go doc shows the source of a constant: the constants of the library have their values there, and not the name of
// a constant of an internal package.
func TestConstants(t *testing.T) {
	l := load(t)
	constants := 0
	for _, p := range l.public {
		for _, file := range l.parse(t, p) {
			for _, spec := range consts(file) {
				for i, value := range spec.Values {
					if constants++; !spec.Names[i].IsExported() {
						continue
					}
					ast.Inspect(value, func(n ast.Node) bool {
						s, ok := n.(*ast.SelectorExpr)
						if !ok {
							return true
						}
						if of, ok := s.X.(*ast.Ident); ok && of.Name != "time" && of.Name != "math" {
							t.Errorf("%s.%s = … %s.%s: go doc shows no value", p.ImportPath, spec.Names[i], of, s.Sel)
						}
						return true
					})
				}
			}
		}
	}
	if constants < 50 {
		t.Errorf("%d constants", constants)
	}
}

// consts are the declarations of constants in a file.
func consts(file *ast.File) (specs []*ast.ValueSpec) {
	for _, d := range file.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, s := range d.Specs {
				specs = append(specs, s.(*ast.ValueSpec))
			}
		}
	}
	return specs
}
