package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestSite(t *testing.T) {
	s := &site{root: "..", out: t.TempDir(), version: "v1.2.3"}
	if err := s.build(); err != nil {
		t.Fatal(err)
	}
	pages := parse(t, s.dir())
	t.Run("links", func(t *testing.T) { testLinks(t, s, pages) })
	t.Run("nothing from elsewhere", func(t *testing.T) { testNothingFromElsewhere(t, s) })
	t.Run("references", func(t *testing.T) { testReferences(t, s, pages) })
	t.Run("navigation", func(t *testing.T) { testNavigation(t, s, pages) })
}

// A document is an HTML file of the site.
type document struct {
	ids   map[string]bool
	links []string // of all elements
}

// parse reads all HTML files of the site, by their paths.
func parse(t *testing.T, dir string) map[string]document {
	t.Helper()
	all := map[string]document{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		root, err := html.Parse(f)
		if err != nil {
			return err
		}
		d := document{ids: map[string]bool{}}
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				switch a.Key {
				case "id":
					if d.ids[a.Val] {
						t.Errorf("%s: the id %q is there twice", name, a.Val)
					}
					d.ids[a.Val] = true
				case "href", "src":
					d.links = append(d.links, a.Val)
					if u, err := url.Parse(a.Val); (err != nil || u.Scheme != "") && (a.Key == "src" || n.Data != "a") {
						t.Errorf("%s: <%s> loads %s", name, n.Data, a.Val)
					}
				}
			}
		}
		short, err := filepath.Rel(dir, name)
		all[filepath.ToSlash(short)] = d
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Links lead to a file of the site, and to a place that it has; scripts name files that are there. What is in the
// repository alone is there too: build fails otherwise.
func testLinks(t *testing.T, s *site, pages map[string]document) {
	links := 0
	for at, d := range pages {
		for _, link := range d.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			links++
			to := at
			if u.Path != "" {
				to = path.Join(path.Dir(at), u.Path)
			}
			target, isPage := pages[to]
			if _, err := os.Stat(filepath.Join(s.dir(), to)); err != nil {
				t.Errorf("%s: %s: %v", at, link, err)
			} else if isPage && u.Fragment != "" && !target.ids[u.Fragment] && to != "playground.html" {
				t.Errorf("%s: %s: there is no such heading", at, link)
			}
		}
	}
	if links < 3000 {
		t.Errorf("%d links", links)
	}
	for document, name := range live {
		if s.bySource[document] == nil {
			t.Errorf("there is no %s, which plays %s", document, name)
		}
		if _, err := os.Stat(filepath.Join(s.dir(), scenarioFiles, name)); err != nil {
			t.Error(err)
		}
	}
}

// Scripts and styles load nothing from elsewhere. A policy in each page has the browser refuse it.
func testNothingFromElsewhere(t *testing.T, s *site) {
	err := filepath.WalkDir(s.dir(), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		switch filepath.Ext(name) {
		case ".html":
			if !strings.Contains(string(text), `<meta http-equiv="Content-Security-Policy" content="default-src 'self';`) {
				t.Errorf("%s has no policy", name)
			}
		case ".js", ".css":
			if own := filepath.Dir(name) == s.dir(); own && strings.Contains(strings.ReplaceAll(string(text), "http://127.0.0.1", ""), "://") {
				t.Errorf("%s has an address", name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The page of references leads to each of them, and to each schema, which the site has where the first lines of files say. What
// descriptions for programs say is on their pages.
func testReferences(t *testing.T, s *site, pages map[string]document) {
	links := map[string]bool{}
	for _, link := range pages["docs/index.html"].links {
		links[path.Join("docs", link)] = true
	}
	schemas, err := filepath.Glob("../schema/*.json")
	if err != nil || len(schemas) == 0 {
		t.Fatal(schemas, err)
	}
	for _, name := range schemas {
		want := "schema/" + filepath.Base(name)
		if _, err := os.Stat(filepath.Join(s.dir(), want)); err != nil || !links[want] {
			t.Errorf("%v: the page of references does not lead to %s", err, want)
		}
	}
	if rules, err := s.read("deploy/rules/rules.yaml"); err != nil || !strings.HasPrefix(string(rules), "# yaml-language-server: $schema="+address+"schema/rules.schema.json\n") {
		t.Errorf("%v: the rules name another address than that of the site", err)
	}
	for _, p := range s.pages {
		if p.Title == "" || p.Title == strings.TrimSuffix(path.Base(p.source), ".md") {
			t.Errorf("%s has no title", p.source)
		}
	}
	for name, has := range map[string][]string{
		"defaults": {"weir-serve", "library"}, "serve-reference": {"rules", "tokens"}, "proxy-reference": nil, "sim-reference": {"clients"},
		"metrics": {"metrics", "reasons"}, "errors": nil, "http-api": {"get-post-ratekey"}, "grpc-api": {"decide", "decision", "reason"},
	} {
		at := "docs/" + name + ".html"
		if !links[at] {
			t.Errorf("the page of references does not lead to %s", at)
		}
		for _, id := range has {
			if !pages[at].ids[id] {
				t.Errorf("%s has no %s", at, id)
			}
		}
	}
	proto, err := os.ReadFile(filepath.Join(s.dir(), "docs/grpc-api.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<code>/weir.v1.WeirService/Wait</code>", "The queue is full.", "<code>REASON_QUEUE_FULL</code>", "The longest wait.", "<code>PERMISSION_DENIED</code>"} {
		if !strings.Contains(string(proto), want) {
			t.Errorf("the page of the proto does not have %s", want)
		}
	}
}

// Each document of docs is in the navigation, and has the headings that the search knows.
func testNavigation(t *testing.T, s *site, pages map[string]document) {
	shown := map[*page]bool{}
	for _, g := range s.groups {
		for _, p := range g.Pages {
			shown[p] = true
		}
	}
	for source, p := range s.bySource {
		if strings.HasPrefix(source, "docs/") && source != "docs/README.md" && !shown[p] {
			t.Errorf("%s is not in the navigation", source)
		}
		for _, section := range p.sections {
			if _, anchor, ok := strings.Cut(section.Path, "#"); ok && !pages[p.path].ids[anchor] {
				t.Errorf("the search knows %s, which is not there", section.Path)
			}
		}
	}
}

// The entry leads to the newest version, has its schemas, and lists all versions.
func TestEntry(t *testing.T) {
	s := &site{out: t.TempDir()}
	for _, v := range []string{"next", "v0.10.0", "v0.9.0", "v0.10.1"} {
		dir := filepath.Join(s.out, "v", v, "schema")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "rules.schema.json"), []byte(v), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.entry(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"versions.json": `["v0.10.1","v0.10.0","v0.9.0","next"]`, "index.html": `url=v/v0.10.1/index.html"`, "schema/rules.schema.json": "v0.10.1",
	} {
		if text, err := os.ReadFile(filepath.Join(s.out, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s: want %s", name, err, text, want)
		}
	}
}
