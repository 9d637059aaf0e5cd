package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

const (
	root = "../.."
	ours = "github.com/weir-go/weir"
)

// A listed package is a package as go list has it.
type listed struct {
	Dir, ImportPath, Name, Export string
	GoFiles                       []string
}

// A library has the packages of the modules that users import, and their dependencies.
type library struct {
	goWork string // joins the modules
	public []listed
	byName map[string]string // import paths by the names of packages
	types.Importer
	*token.FileSet
}

func load(t *testing.T) *library {
	t.Helper()
	l, err := loaded()
	testrig.Must(t, err)
	return l
}

// workDir is a directory for all tests. TestMain removes it.
var workDir string

func TestMain(m *testing.M) {
	if _, err := os.Stat(root + "/service/go.mod"); errors.Is(err, fs.ErrNotExist) {
		return // the module alone, outside a checkout: pages are about the other modules, too
	}
	os.Exit(func() int {
		var err error
		if workDir, err = os.MkdirTemp("", "weir-docs-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(workDir)
		return m.Run()
	}())
}

var loaded = sync.OnceValues(func() (*library, error) {
	l := &library{goWork: filepath.Join(workDir, "go.work"), byName: map[string]string{}, FileSet: token.NewFileSet()}
	modules, err := modules()
	if err != nil {
		return nil, err
	}
	work, patterns := "go 1.26.0\n", []string(nil)
	for _, dir := range modules {
		abs, err := filepath.Abs(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		work += fmt.Sprintf("use %q\n", abs)
		patterns = append(patterns, "./"+filepath.ToSlash(filepath.Join(dir, "..."))) // "..." of the root has no other module
	}
	patterns = append(patterns, "github.com/prometheus/client_golang/prometheus/promhttp") // README uses it, no module does
	if err := os.WriteFile(l.goWork, []byte(work), 0o600); err != nil {
		return nil, err
	}
	list := l.command(root, append([]string{"list", "-export", "-deps", "-json=Dir,ImportPath,Name,Export,GoFiles"}, patterns...)...)
	out, err := list.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("%v: %s", list, failed.Stderr)
		}
		return nil, err
	}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		mine := strings.HasPrefix(p.ImportPath+"/", ours+"/")
		if strings.Contains("/"+p.ImportPath+"/", "/internal/") || p.Name == "main" {
			continue
		}
		if mine && len(p.GoFiles) > 0 {
			l.public = append(l.public, p)
		}
		domain, _, _ := strings.Cut(p.ImportPath, "/")
		if _, known := l.byName[p.Name]; !known || mine || !strings.Contains(domain, ".") && !mineToo(l.byName[p.Name]) {
			l.byName[p.Name] = p.ImportPath
		}
	}
	slices.SortFunc(l.public, func(a, b listed) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	l.Importer = importer.ForCompiler(l.FileSet, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return l, nil
})

func mineToo(path string) bool { return strings.HasPrefix(path+"/", ours+"/") }

// modules returns the directories of the modules that users import.
func modules() (dirs []string, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
			others := []string{"bench", "deploy", "examples", "internal", "service", "site", "testdata"}
			if rel != "." && (strings.HasPrefix(first, ".") || slices.Contains(others, first)) {
				return fs.SkipDir
			}
		} else if d.Name() == "go.mod" {
			dirs = append(dirs, filepath.Dir(rel))
		}
		return nil
	})
	return dirs, err
}

// command is a command of go with all modules in one workspace.
func (l *library) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK="+l.goWork)
	return cmd
}

// parse reads the files of a package, with comments.
func (l *library) parse(t *testing.T, p listed) (files []*ast.File) {
	t.Helper()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(l.FileSet, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		testrig.Must(t, err)
		files = append(files, file)
	}
	return files
}
