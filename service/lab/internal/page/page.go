// Package page writes results as a page of HTML with tables and plots. The page needs no other file, and its policy lets
// it load none.
package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

//go:embed page.html
var text string

var page = template.Must(template.New("page").Parse(text))

// A Page has these things from top to bottom.
type Page struct {
	Title, Sub string
	Answer     []string // sentences, of which the first is the most important
	Good, Bad  []string // what was checked
	Facts      []Fact
	Parts      []Part
}

// A Fact is a figure.
type Fact struct{ Name, Value, Note string }

// A Part has a title, and one of the other things.
type Part struct {
	Title string
	Note  string
	Items []string
	Table *Table
	SVG   template.HTML // of Draw
	Bars  []Bar
}

// A Table has a row of titles. The first cell of each row is the title of the row.
type Table struct {
	Head  []string
	Rows  [][]Cell
	Texts bool // cells have texts, and not numbers
}

// A Cell is a text, with a smaller one below.
type Cell struct{ Text, Below string }

// Row returns cells with texts.
func Row(texts ...string) (cells []Cell) {
	for _, text := range texts {
		cells = append(cells, Cell{Text: text})
	}
	return cells
}

// A Bar is a row of a histogram. Its width is in per cent of the longest.
type Bar struct {
	Label string
	Count int64
	Width float64
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return page.Execute(w, p) }

// themed replaces the colours of a plot by those of the page, which has a light and a dark one of each.
var themed = strings.NewReplacer(
	"#FFFFFF", "var(--card)", "#222222", "var(--ink)", "#777777", "var(--faint)", "#E4E4E4", "var(--grid)", "#A8A8A8", "var(--grey)",
	"#0072B2", "var(--blue)", "#D55E00", "var(--red)", "#009E73", "var(--green)", "#E69F00", "var(--orange)",
	"#CC79A7", "var(--pink)", "#56B4E9", "var(--sky)", "#6A3D9A", "var(--violet)", "#8C564B", "var(--brown)",
	"#0071B1", "var(--blue)", "#E59E00", "var(--orange)", // of shades, which SVG rounds down
)

// Draw adds a panel of a sheet. Words describe it for readers that do not see it.
func (p *Page) Draw(title, note, words string, s plot.Sheet, panel int) error {
	var svg bytes.Buffer
	if err := plot.DrawPanel(&svg, s, panel, "svg"); err != nil {
		return err
	}
	// Without the declaration of XML, which HTML does not have.
	_, drawn, _ := bytes.Cut(svg.Bytes(), []byte("<svg "))
	p.Parts = append(p.Parts, Part{
		Title: title, Note: note,
		SVG: template.HTML(`<svg role="img" aria-label="` + template.HTMLEscapeString(words) + `" ` + themed.Replace(string(drawn))),
	})
	return nil
}
