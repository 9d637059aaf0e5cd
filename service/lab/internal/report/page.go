package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A pageView is the data of the template.
type pageView struct {
	Title, Sub string
	Facts      []fact
	Passed     bool     // thresholds were given, and are kept
	Broken     []string // thresholds
	Late       string
	Tables     []tableView
	Plots      []plotView
	Bars       []barView
	BarsOf     string
}

type fact struct{ Name, Value, Note string }

type tableView struct {
	Title string
	Head  []string
	Rows  [][]string
	Note  string
}

// A plotView is a panel of a sheet.
type plotView struct {
	Title, Note string
	SVG         template.HTML
}

type barView struct {
	Label string
	Count int64
	Width float64 // in per cent of the longest
}

// Page writes the report as a page that needs no other file. Broken are the thresholds
// that it does not keep; checked reports whether there were any.
func (r Report) Page(w io.Writer, checked bool, broken []string) error {
	v := pageView{
		Title: "weirlab load: " + r.Target, Sub: r.Load + " · " + stamp(r.Began),
		Passed: checked && len(broken) == 0, Broken: broken, Late: r.late(),
		Facts: []fact{
			{"offered", fmt.Sprintf("%.1f/s", r.Offered), fmt.Sprintf("%d requests in %.1f s", r.Requests, r.Elapsed)},
			{"goodput", fmt.Sprintf("%.1f/s", r.Goodput), "answered with success and in time"},
			{"failed", percent(r.FailedShare), fmt.Sprintf("%d requests", r.Failed)},
		},
		Tables: []tableView{r.latencyTable(), r.statusTable()},
	}
	if l := r.Latency.Successes; l != nil {
		v.Facts = append(v.Facts, fact{"P99", seconds(l.P99), "P50 " + seconds(l.P50) + ", of the successes"})
	}
	if t := r.Traffic; t.Connections > 0 {
		v.Facts = append(v.Facts, fact{"received", byteSize(t.Received), fmt.Sprintf("%s sent, %d connections", byteSize(t.Sent), t.Connections)})
	}
	var curves []group
	for _, g := range r.groups() {
		if g.latency != nil && !(g.name == "all" && r.Succeeded == r.Requests) {
			curves = append(curves, g)
		}
	}
	if l, name := r.answered(); l != nil {
		v.BarsOf, v.Bars = name, views(l.bars())
	}
	if err := v.draw(r.timeSheet(), percentileSheet(curves)); err != nil {
		return err
	}
	return page.Execute(w, v)
}

// Page writes the comparison as a page that needs no other file. Broken are the figures
// that are worse than allowed; checked reports whether there was a bound.
func (c Comparison) Page(w io.Writer, checked bool, broken []string) error {
	v := pageView{Title: "weirlab load: A and B", Passed: checked && len(broken) == 0, Broken: broken}
	for i, run := range []Run{c.Before, c.After} {
		v.Facts = append(v.Facts, fact{string(rune('A' + i)), run.Name, run.Report.about() + " · " + stamp(run.Report.Began)})
	}
	t := tableView{Title: "What changed", Head: []string{"", "A", "B", "change", ""},
		Note: "Worse and better: beyond the noise of the two runs (95 %, if requests are independent). ~: within it. No sign: too few requests to tell, or no noise to compare with."}
	for _, f := range c.Figures {
		t.Rows = append(t.Rows, []string{f.Name, f.value(f.Before), f.value(f.After), f.change(), f.note()})
	}
	v.Tables = []tableView{t}
	var curves []group
	for i, run := range []Run{c.Before, c.After} {
		if l, name := run.Report.answered(); l != nil {
			curves = append(curves, group{string(rune('A'+i)) + ", " + name, []int{colorBefore, colorAfter}[i], l})
		}
	}
	if err := v.draw(percentileSheet(curves), c.timeSheet()); err != nil {
		return err
	}
	return page.Execute(w, v)
}

// themed replaces the colours of a plot by those of the page, which has a light and a dark one of each.
var themed = strings.NewReplacer(
	"#FFFFFF", "var(--card)", "#222222", "var(--ink)", "#777777", "var(--faint)", "#E4E4E4", "var(--grid)", "#A8A8A8", "var(--grey)",
	"#0072B2", "var(--bar)", "#D55E00", "var(--red)", "#009E73", "var(--green)", "#E69F00", "var(--orange)",
)

// draw adds a plot for each panel.
func (v *pageView) draw(sheets ...plot.Sheet) error {
	for _, s := range sheets {
		for i, p := range s.Panels {
			var svg bytes.Buffer
			if err := plot.DrawPanel(&svg, s, i, "svg"); err != nil {
				return err
			}
			title := p.Title + " " + strings.ToLower(s.Title[:1]) + s.Title[1:]
			if len(s.Panels) == 1 {
				title = s.Title
			}
			// Without the declaration of XML, which HTML does not have.
			_, text, _ := bytes.Cut(svg.Bytes(), []byte("<svg "))
			v.Plots = append(v.Plots, plotView{
				title, strings.Join(s.Notes, "; "),
				template.HTML("<svg role=\"img\" aria-label=\"" + template.HTMLEscapeString(title) + "\" " + themed.Replace(string(text))),
			})
		}
	}
	return nil
}

func (r Report) latencyTable() tableView {
	t := tableView{Title: "Latency", Head: append([]string{""}, heads()...),
		Note: "From the intended start of each request. A dash: too few requests for this percentile."}
	for _, g := range r.groups() {
		t.Rows = append(t.Rows, append([]string{g.name}, g.latency.cells()...))
	}
	return t
}

func (r Report) statusTable() tableView {
	t := tableView{Title: "Answers", Head: []string{"status", "requests", "share", ""}}
	for _, label := range slices.Sorted(maps.Keys(r.ByStatus)) {
		n := r.ByStatus[label]
		t.Rows = append(t.Rows, []string{label, fmt.Sprint(n), percent(float64(n) / float64(r.Requests)), meanings[label]})
	}
	return t
}

func views(bars []bar) (views []barView) {
	most := int64(1)
	for _, b := range bars {
		most = max(most, b.count)
	}
	for _, b := range bars {
		views = append(views, barView{b.label(), b.count, 100 * float64(b.count) / float64(most)})
	}
	return views
}
