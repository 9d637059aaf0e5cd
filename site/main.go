// Command site builds the site: the Markdown of the repository, references that are generated from the code, and the
// playground. Each version of the documentation has a directory of its own, below v. All links are relative, so that any
// server of files can have the site at any path.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "the repository")
	out := flag.String("out", "public", "where to write the site; other versions that are there stay")
	version := flag.String("version", "next", "the version of the documentation, a part of each path")
	listen := flag.String("listen", "", "an address to serve the site at, once it is built, such as 127.0.0.1:8000")
	flag.Parse()
	s := &site{root: *root, out: *out, version: *version}
	if err := inTurn(s.build, s.simulator, s.entry); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d pages: %s\n", len(s.pages), filepath.Join(s.dir(), "index.html"))
	if *listen != "" {
		fmt.Printf("http://%s\n", *listen)
		log.Fatal(http.ListenAndServe(*listen, http.FileServer(http.Dir(s.out))))
	}
}

// A site is one version of the documentation.
type site struct {
	root, out, version string
	pages              []*page
	bySource           map[string]*page
	files              map[string]string // paths of the site of what it copies, by the paths from the root
	groups             []group
}

// dir is the directory of this version.
func (s *site) dir() string { return filepath.Join(s.out, "v", s.version) }

// write writes a file of this version.
func (s *site) write(name string, content []byte) error {
	name = filepath.Join(s.dir(), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}

// read reads a file of the repository.
func (s *site) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
}

// build writes all but the simulator.
func (s *site) build() error {
	if err := os.RemoveAll(s.dir()); err != nil {
		return err
	}
	return inTurn(s.load, s.render, s.copyAssets, s.index)
}

// inTurn calls functions up to the first that fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// index writes the index of the search.
func (s *site) index() error {
	var all []section
	for _, p := range s.pages {
		all = append(all, p.sections...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.write("search.json", text)
}

// simulator compiles the simulator of the playground. It is compressed here, so that no server has to do it.
func (s *site) simulator() error {
	lab := filepath.Join(s.root, "service", "lab")
	file, err := filepath.Abs(filepath.Join(s.dir(), "sim.wasm"))
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-C", lab, "-trimpath", "-ldflags=-s -w", "-o", file, "./cmd/playground")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWORK=")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("the simulator: %w", err)
	}
	if err := compress(file, filepath.Join(s.dir(), "sim.wasm.gzip")); err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	glue, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	return s.write("wasm_exec.js", glue)
}

// entry writes what all versions share: their list, the schemas of the newest one, and a page that leads to it.
func (s *site) entry() error {
	entries, err := os.ReadDir(filepath.Join(s.out, "v"))
	if err != nil {
		return err
	}
	versions := map[string]bool{}
	for _, e := range entries {
		versions[e.Name()] = e.IsDir()
	}
	names := slices.SortedFunc(maps.Keys(versions), newestFirst)
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.out, "versions.json"), list, 0o644); err != nil {
		return err
	}
	schemas := filepath.Join(s.out, "schema")
	if err := os.RemoveAll(schemas); err != nil {
		return err
	}
	if err := os.CopyFS(schemas, os.DirFS(filepath.Join(s.out, "v", names[0], "schema"))); err != nil {
		return err
	}
	to := "v/" + names[0] + "/"
	return os.WriteFile(filepath.Join(s.out, "index.html"), fmt.Appendf(nil, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=%[1]sindex.html">
<link rel="icon" href="%[1]sicon.svg">
<title>weir</title>
<a href="%[1]sindex.html">weir</a>
`, to), 0o644)
}

// newestFirst orders versions such as v0.10.0 before v0.9.0, and others, such as next, after all of them.
func newestFirst(a, b string) int {
	x, y := numbers(a), numbers(b)
	return cmp.Or(slices.Compare(y, x), strings.Compare(a, b))
}

// numbers returns the numbers of a version, none of others.
func numbers(version string) []int {
	var v [3]int
	if n, _ := fmt.Sscanf(version, "v%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
		return nil
	}
	return v[:]
}
