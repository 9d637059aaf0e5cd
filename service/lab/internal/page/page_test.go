package page_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/page"
	"github.com/weir-go/weir/service/lab/internal/plot"
)

// What a page shows is escaped, it needs no other file, and each colour of a plot is one of the page, which has a light
// and a dark one of each.
func TestPage(t *testing.T) {
	line := plotter.XYs{{X: 0, Y: 1}, {X: 1, Y: 2}}
	panel := plot.Panel{Marks: []plot.Mark{{Label: "mark", At: 1}}, Bands: []plot.Band{{To: 1}}, Areas: []plot.Area{{Color: plot.Shade, Low: line, High: line}}}
	for i := range plot.Colours {
		panel.Add(fmt.Sprint("line ", i), plot.Stroke(plot.Colour(i), 1, nil), line)
	}
	panel.Dots("dots", plot.Grey, line)
	p := page.Page{
		Title: "<title>", Answer: []string{"a < b"}, Good: []string{"good"}, Bad: []string{"<bad>"}, Facts: []page.Fact{{Name: "n", Value: "<v>"}},
		Parts: []page.Part{{Title: "Table", Table: &page.Table{Head: []string{"", "head"}, Rows: [][]page.Cell{{{Text: "row"}, {Text: "<1>", Below: "0 to <2>"}}}}}},
	}
	if err := p.Draw("Plot", "", `what "it" shows`, plot.Sheet{Keys: []plot.Key{{Label: "of the sheet", Style: plot.MarkStyle}}, Panels: []plot.Panel{panel}}, 0); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"<title>&lt;title&gt;", "a &lt; b", "✗ &lt;bad&gt;", "✓ good", "&lt;v&gt;", `<th scope="col">head</th>`, `<th scope="row">row</th><td>&lt;1&gt;<small>0 to &lt;2&gt;</small>`,
		`role="img" aria-label="what &#34;it&#34; shows"`, ">line 7<", ">dots<", ">mark<", ">of the sheet<", "default-src 'none'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in the page", want)
		}
	}
	for _, bad := range []string{"<script", "src=", "href=", "<?xml", "url("} {
		if strings.Contains(text, bad) {
			t.Errorf("%q in a page that needs no other file", bad)
		}
	}
	_, plots, _ := strings.Cut(text, "<svg role")
	if own := regexp.MustCompile(`#[0-9A-F]{6}`).FindString(plots); own != "" {
		t.Errorf("a plot has a colour of its own: %s", own)
	}
	for _, use := range regexp.MustCompile(`var\((--[a-z]+)\)`).FindAllStringSubmatch(text, -1) {
		if n := strings.Count(text, use[1]+":"); n != 2 {
			t.Errorf("%s is defined %d times: want a light and a dark colour", use[1], n)
		}
	}
}
