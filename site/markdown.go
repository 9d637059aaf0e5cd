package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	markup "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM, highlighting.NewHighlighting(highlighting.WithFormatOptions(html.WithClasses(true)))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(markup.WithUnsafe()), // the repository is trusted
)

// highlightCSS returns the colours of code, by day and by night.
func highlightCSS() ([]byte, error) {
	var out bytes.Buffer
	f := html.New(html.WithClasses(true))
	err := f.WriteCSS(&out, styles.Get("modus-operandi"))
	out.WriteString("@media (prefers-color-scheme: dark) {\n")
	err = cmp.Or(err, f.WriteCSS(&out, styles.Get("modus-vivendi")))
	out.WriteString("}\n")
	return out.Bytes(), err
}

var linked = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)

// convert makes the page of a document.
func (s *site) convert(p *page, source []byte) error {
	source = diagram.ReplaceAll(source, []byte("[The diagram]("+repository+"blob/"+s.ref()+"/"+p.source+")"))
	doc := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids{}))))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Link:
			var to string
			other := s.named(p, n, source)
			to, err = s.target(p, string(n.Destination))
			n.Destination = []byte(to)
			if other != nil {
				n.RemoveChildren(n)
				n.AppendChild(n, ast.NewString([]byte(other.Title)))
			}
		case *ast.Image:
			var to string
			to, err = s.target(p, string(n.Destination))
			n.Destination = []byte(to)
			n.SetAttributeString("loading", []byte("lazy"))
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return err
	}
	if p.Live != "" {
		if p.About, err = s.about(p.Live); err != nil {
			return err
		}
	}
	p.split(doc, source)
	var out bytes.Buffer
	if !title.Match(source) { // a table that a program has written
		fmt.Fprintf(&out, "<h1>%s</h1>\n", p.Title)
	}
	if err := markdown.Renderer().Render(&out, source, doc); err != nil {
		return err
	}
	body := comment.ReplaceAllString(out.String(), "")
	// What is too wide for a telephone scrolls, also by the keyboard. An empty cell is no header.
	body = strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>",
		"<pre>", `<pre tabindex="0">`, "<pre class", `<pre tabindex="0" class`, "<th></th>", "<td></td>").Replace(body)
	body = anchored.ReplaceAllString(body, `<h$1 id="$2">$3 <a class="anchor" href="#$2" aria-label="Link to this section">#</a></h$1>`)
	if intro, rest, found := strings.Cut(body, "</p>\n"); found {
		p.Intro, body = template.HTML(intro+"</p>\n"), rest
	}
	p.Body = template.HTML(body)
	return nil
}

// about returns what the comment at the begin of a scenario says.
func (s *site) about(name string) (string, error) {
	text, err := s.read(scenarioFiles + name)
	var words []string
	for line := range strings.Lines(string(text)) {
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		if !strings.HasPrefix(comment, "yaml-language-server:") {
			words = append(words, strings.Fields(comment)...)
		}
	}
	return strings.Join(words, " "), err
}

// named returns the document that a link names by its file, as docs/README.md does. The site shows its title.
func (s *site) named(p *page, link *ast.Link, source []byte) *page {
	if name := plain(link, source); !strings.HasSuffix(name, ".md") {
		return nil
	}
	return s.bySource[path.Join(path.Dir(p.source), string(link.Destination))]
}

var (
	title    = regexp.MustCompile(`(?m)^# (.*)$`)
	diagram  = regexp.MustCompile("(?ms)^```mermaid$.*?^```$") // GitHub draws it
	comment  = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	anchored = regexp.MustCompile(`<h([2-4]) id="([^"]+)">(.*?)</h[2-4]>`)
)

// split finds the headings, and the sections for the search.
func (p *page) split(doc ast.Node, source []byte) {
	var current *section
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			if current != nil {
				current.Text += plain(n, source)
			}
			continue
		}
		text := strings.TrimSpace(plain(h, source))
		id, _ := h.AttributeString("id")
		s := section{Path: p.path, Page: p.Title, Heading: text}
		switch {
		case h.Level == 1:
			s.Heading = ""
		default:
			anchor := string(id.([]byte))
			s.Path += "#" + anchor
			if h.Level == 2 {
				p.Headings = append(p.Headings, heading{anchor, text})
			}
		}
		p.sections = append(p.sections, s)
		current = &p.sections[len(p.sections)-1]
	}
}

// plain returns the text of a node, without its markup.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Value(source))
				if n.SoftLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				for i := range n.Lines().Len() {
					line := n.Lines().At(i)
					out.Write(line.Value(source))
				}
			}
		case *ast.Paragraph, *ast.ListItem, *extast.TableCell:
			if !entering {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// ids makes the names of headings as GitHub makes them: lower case, hyphens for spaces, without other punctuation.
type ids map[string]bool

// Generate returns the name of a heading.
func (all ids) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, linkText.ReplaceAllString(strings.TrimSpace(string(value)), "$1"))
	unique := name
	for i := 1; all[unique]; i++ {
		unique = name + "-" + strconv.Itoa(i)
	}
	all[unique] = true
	return []byte(unique)
}

// Put takes a name.
func (all ids) Put(value []byte) { all[string(value)] = true }

var linkText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
