// ossfuzz builds a fuzz test of Go as an archive for libFuzzer, as OSS-Fuzz runs it.
//
//	ossfuzz -o FuzzParse.a DIR FuzzParse
//
// The tools of OSS-Fuzz put a package of their own in the place of testing, which neither testing/synctest nor a package
// NAME_test takes. This one builds the unchanged test files of the directory, as packages that a program may import.
// The program calls testing.MainStart, which another version of Go may change: TestBuild fails then.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed driver.go.tmpl
var driver string

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "the archive")
	flag.Parse()
	if *out == "" || flag.NArg() != 2 {
		log.Fatal("usage: ossfuzz -o FILE DIR FUNCTION")
	}
	if err := build(*out, flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal("ossfuzz: ", err)
	}
}

// build puts the files of the tests beside those of their package, by an overlay, those of NAME_test as the package
// DIR/ossfuzz, and builds a program that imports one of the two.
func build(out, dir, function string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	list := exec.Command("go", "list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", ".")
	list.Dir, list.Stderr = dir, os.Stderr
	text, err := list.Output()
	if err != nil {
		return err
	}
	var pkg struct {
		Dir, ImportPath           string
		TestGoFiles, XTestGoFiles []string
	}
	if err := json.Unmarshal(text, &pkg); err != nil {
		return err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	from := pkg.ImportPath
	add := func(folder string, names []string) error {
		for _, name := range names {
			path := filepath.Join(pkg.Dir, name)
			overlay.Replace[filepath.Join(pkg.Dir, folder, strings.TrimSuffix(name, "_test.go")+"_ossfuzz.go")] = path
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(text), "\nfunc "+function+"(") {
				from = filepath.Join(pkg.ImportPath, folder)
			}
		}
		return nil
	}
	if err := add("", pkg.TestGoFiles); err != nil {
		return err
	}
	if err := add("ossfuzz", pkg.XTestGoFiles); err != nil {
		return err
	}
	work, err := os.MkdirTemp(pkg.Dir, "_ossfuzz") // where it may import what is internal, and ./... does not see it
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	program, err := os.Create(filepath.Join(work, "main.go"))
	if err != nil {
		return err
	}
	defer program.Close()
	what := struct{ Package, Func string }{from, function}
	if err := template.Must(template.New("").Parse(driver)).Execute(program, what); err != nil {
		return err
	}
	text, err = json.Marshal(overlay)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "overlay.json"), text, 0o600); err != nil {
		return err
	}
	args := []string{"build", "-o", out, "-overlay", filepath.Join(work, "overlay.json"), "-buildmode=c-archive", "-trimpath", "-tags=libfuzzer", "-gcflags=all=-d=libfuzzer"}
	for _, calm := range []string{"runtime/cgo", "runtime/pprof", "runtime/race", "syscall"} { // below what the coverage may count
		args = append(args, "-gcflags="+calm+"=-d=libfuzzer=0")
	}
	cmd := exec.Command("go", append(args, "./"+filepath.Base(work))...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = pkg.Dir, os.Stdout, os.Stderr
	return cmd.Run()
}
