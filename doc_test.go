package weir_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// The package documentation lists every package that users import.
func TestDocListsPackages(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "go get github.com/weir-go/weir ") {
		t.Error("doc.go does not say how to get the library")
	}
	dirs, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, dir := range dirs {
		switch name := dir.Name(); name {
		case "internal", "service", "bench", "examples", "deploy", "site", "testdata": // nothing to import
		default:
			files, err := fs.Glob(os.DirFS("."), path.Join(name, "*.go"))
			if err != nil || !dir.IsDir() || len(files) == 0 {
				continue
			}
			listed++
			if !strings.Contains(string(doc), "[github.com/weir-go/weir/"+name+"]: ") {
				t.Errorf("doc.go does not list package %s", name)
			}
		}
	}
	if n := strings.Count(string(doc), "[github.com/weir-go/weir/"); n != listed {
		t.Errorf("doc.go lists %d packages: want %d", n, listed)
	}
}
