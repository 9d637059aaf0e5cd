package main

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repository is where links to files lead that the site does not have.
const repository = "https://github.com/weir-go/weir/"

// address is where the site is published.
const address = "https://weir-go.github.io/weir/"

// A page is a Markdown document, or a page of the site's own.
type page struct {
	source   string // from the root of the repository
	path     string // from the directory of the version
	Title    string
	Intro    template.HTML // up to the end of the first paragraph
	Body     template.HTML // the rest
	Headings []heading
	Live     string // a scenario that the page can play
	About    string // what the scenario shows
	sections []section
}

// A heading is a heading of the second level.
type heading struct{ ID, Text string }

// A section is the text below a heading: a result of the search.
type section struct {
	Path    string `json:"p"` // with the anchor
	Page    string `json:"t"`
	Heading string `json:"h,omitempty"`
	Text    string `json:"x"`
}

// A group is a part of the navigation.
type group struct {
	Title string
	Pages []*page
}

// generated are the pages that are made from descriptions for programs, by these.
var generated = map[string]struct {
	path     string
	markdown func(*site) ([]byte, error)
}{
	openapi: {"docs/http-api.html", (*site).openAPI},
	proto:   {"docs/grpc-api.html", (*site).gRPC},
}

// pathOf returns the path of the page of a document.
func pathOf(source string) string {
	if made, ok := generated[source]; ok {
		return made.path
	}
	switch name := strings.TrimSuffix(source, ".md"); {
	case name == "README":
		return "readme.html"
	case path.Base(name) == "README":
		return path.Join(path.Dir(name), "index.html")
	default:
		return strings.ToLower(name) + ".html"
	}
}

// load reads all documents.
func (s *site) load() error {
	names, err := filepath.Glob(filepath.Join(s.root, "docs", "*.md"))
	if err != nil || len(names) == 0 {
		return errors.Join(fmt.Errorf("no documents in %s", s.root), err)
	}
	sources := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md"}
	for _, name := range names {
		sources = append(sources, "docs/"+filepath.Base(name))
	}
	texts := map[string][]byte{}
	s.bySource, s.files = map[string]*page{}, maps.Clone(copied)
	schemas, err := filepath.Glob(filepath.Join(s.root, "schema", "*.json"))
	if err != nil {
		return err
	}
	for _, name := range schemas {
		name = "schema/" + filepath.Base(name)
		s.files[name] = name
	}
	for _, name := range scenarios {
		s.files[scenarioFiles+name] = scenarioFiles + name
	}
	add := func(source string, text []byte) {
		p := &page{source: source, path: pathOf(source), Live: live[source]}
		if m := title.FindSubmatch(text); m != nil {
			p.Title = strings.ReplaceAll(string(m[1]), "`", "")
		}
		texts[source], s.bySource[source] = text, p
		s.pages = append(s.pages, p)
	}
	for _, source := range sources {
		text, err := s.read(source)
		if err != nil {
			return err
		}
		add(source, text)
	}
	for _, source := range slices.Sorted(maps.Keys(generated)) {
		text, err := generated[source].markdown(s)
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		add(source, text)
	}
	if err := s.navigation(texts["docs/README.md"]); err != nil {
		return err
	}
	for _, p := range s.pages {
		if err := s.convert(p, texts[p.source]); err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
	}
	return nil
}

// used are files of the repository that readers look at or use. The site has each that a page links to.
var used = regexp.MustCompile(`\.png$|^(deploy|service/lab/scenarios)/.*\.(yaml|json|cfg|conf|lua|service)$`)

// target returns where a link of a page leads on the site.
func (s *site) target(p *page, link string) (string, error) {
	if link == "" || strings.Contains(link, "://") || strings.HasPrefix(link, "#") || strings.HasPrefix(link, "mailto:") {
		return link, nil
	}
	name, anchor, anchored := strings.Cut(link, "#")
	if anchored {
		anchor = "#" + anchor
	}
	source := path.Join(path.Dir(p.source), name)
	for _, candidate := range []string{source, path.Join(source, "README.md")} {
		if to := s.bySource[candidate]; to != nil && (to != p || s.files[candidate] == "") {
			return p.relative(to.path) + anchor, nil
		}
	}
	if to := s.files[source]; to != "" {
		return p.relative(to), nil
	}
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(source)))
	switch {
	case err != nil:
		return "", err
	case info.Mode().IsRegular() && used.MatchString(source):
		s.files[source] = source
		return p.relative(source) + anchor, nil
	case info.IsDir():
		return repository + "tree/" + s.ref() + "/" + source + anchor, nil
	}
	return repository + "blob/" + s.ref() + "/" + source + anchor, nil
}

// ref is the branch or tag that the documentation is about.
func (s *site) ref() string {
	if numbers(s.version) == nil {
		return "main"
	}
	return s.version
}

// relative returns the path from a page to a file of the same version.
func (p *page) relative(to string) string { return p.base() + to }

func (p *page) base() string { return strings.Repeat("../", strings.Count(p.path, "/")) }

// navigation makes the groups from the tables of docs/README.md.
func (s *site) navigation(text []byte) error {
	seen := map[*page]bool{}
	for line := range bytes.Lines(text) {
		if title, ok := bytes.CutPrefix(line, []byte("## ")); ok {
			s.groups = append(s.groups, group{Title: string(bytes.TrimSpace(title))})
			continue
		}
		if len(s.groups) == 0 {
			continue
		}
		g := &s.groups[len(s.groups)-1]
		for _, m := range linked.FindAllSubmatch(line, -1) {
			p := s.bySource[path.Join("docs", string(m[2]))]
			if p != nil && !seen[p] {
				seen[p] = true
				p.Title = cmp.Or(p.Title, string(m[1])) // a table that a program has written has no heading
				g.Pages = append(g.Pages, p)
			}
		}
	}
	last := &s.groups[len(s.groups)-1]
	last.Pages = append(last.Pages, s.bySource["CHANGELOG.md"], s.bySource["SECURITY.md"])
	return nil
}

//go:embed templates
var templateFiles embed.FS

// A view is the data of a template.
type view struct {
	*page
	Base, Version string
	Groups        []group
	Home, Play    bool
	Scenarios     []string
}

// render writes all pages.
func (s *site) render() error {
	templates, err := template.ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return err
	}
	home := &page{path: "index.html", Title: "weir"}
	play := &page{path: "playground.html", Title: "Playground"}
	for _, own := range []*page{home, play} {
		own.sections = []section{{Path: own.path, Page: own.Title, Text: words[own.path]}}
	}
	s.pages = append(s.pages, home, play)
	for _, p := range s.pages {
		name := "document.html"
		switch p {
		case home:
			name = "home.html"
		case play:
			name = "playground.html"
		}
		var out bytes.Buffer
		v := view{page: p, Base: p.base(), Version: s.version, Groups: s.groups, Home: p == home, Play: p == play, Scenarios: scenarios}
		if err := templates.ExecuteTemplate(&out, name, v); err != nil {
			return err
		}
		if err := s.write(p.path, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Path is for templates.
func (p *page) Path() string { return p.path }
