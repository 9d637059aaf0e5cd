package floors

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// checkExported reports the exported declarations of a package that mention types of internal
// packages, which users cannot name.
func (c *checker) checkExported(file *ast.File) {
	hidden := map[string]bool{} // names of internal packages in the file
	for _, i := range file.Imports {
		name, _ := strconv.Unquote(i.Path.Value)
		if !strings.HasPrefix(name, Module+"/") || !internal(name) {
			continue
		}
		if i.Name != nil {
			hidden[i.Name.Name] = true
		} else {
			hidden[path.Base(name)] = true
		}
	}
	if len(hidden) == 0 {
		return
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				c.checkType(d.Name, d.Type, hidden)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						if s.TypeParams != nil {
							c.checkType(s.Name, s.TypeParams, hidden)
						}
						c.checkType(s.Name, s.Type, hidden)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() && s.Type != nil {
							c.checkType(name, s.Type, hidden)
						}
					}
				}
			}
		}
	}
}

// internal reports whether an import path is one of an internal package.
func internal(name string) bool {
	return strings.Contains("/"+name+"/", "/internal/")
}

func exportedReceiver(l *ast.FieldList) bool {
	exported := false
	ast.Inspect(l.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !exported {
			exported = id.IsExported()
			return false
		}
		return !exported
	})
	return exported
}

// checkType reports the hidden packages that a type of an exported name mentions, except in
// its unexported fields.
func (c *checker) checkType(name *ast.Ident, t ast.Node, hidden map[string]bool) {
	ast.Inspect(t, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if len(f.Names) == 0 || anyExported(f.Names) {
					c.checkType(name, f.Type, hidden)
				}
			}
			return false
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && hidden[pkg.Name] {
				c.breach(n.Pos(), "%s mentions %s.%s of an internal package", name.Name, pkg.Name, n.Sel.Name)
			}
		}
		return true
	})
}

func anyExported(names []*ast.Ident) bool {
	for _, n := range names {
		if n.IsExported() {
			return true
		}
	}
	return false
}
