package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pages are README and the pages of docs, by their names from the root.
func pages(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(names) < 20 {
		t.Fatalf("%d pages, %v", len(names), err)
	}
	all := []string{"README.md"}
	for _, name := range names {
		all = append(all, "docs/"+filepath.Base(name))
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	code  = regexp.MustCompile("`[^`\n]*`")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// prose is the text of a page without its blocks of code.
func prose(text string) string { return fence.ReplaceAllString(text, "") }

// The index names each page, and README names the index.
func TestIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pages(t)[1:] {
		if name := strings.TrimPrefix(page, "docs/"); name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
	if !strings.Contains(read(t, "README.md"), "](docs/README.md)") {
		t.Error("README.md has no link to docs/README.md")
	}
}

// Links within the repository lead to a file, and to a heading that it has.
func TestLinks(t *testing.T) {
	links := 0
	for _, page := range append(pages(t), "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(prose(read(t, page)), "``"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s: there is no such heading", page, m[1])
			}
		}
	}
	if links < 200 {
		t.Errorf("%d links", links)
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	markup  = regexp.MustCompile("`|\\*\\*|\\[([^]]*)\\]\\([^)]*\\)")
)

// anchors are the names of a page's headings as GitHub makes them: lower case, hyphens for spaces, without other
// punctuation.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(prose(text), -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, markup.ReplaceAllString(m[1], "$1"))] = true
	}
	return all
}

var built = regexp.MustCompile(`(?m)(^|[ ([` + "`" + `])bin/weir(lab)? .*`)

// Pages take weir and weirlab from PATH, as README says.
func TestFromPath(t *testing.T) {
	for _, page := range pages(t) {
		for _, command := range built.FindAllString(read(t, page), -1) {
			t.Errorf("%s: %s: want the program from PATH", page, command)
		}
	}
}
