package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/page"
	"github.com/weir-go/weir/service/lab/internal/plot"
)

// kept says so of thresholds.
func kept(checked bool, broken []string) []string {
	if !checked || len(broken) > 0 {
		return nil
	}
	return []string{"All thresholds are kept."}
}

// Page writes the report as a page that needs no other file. Broken are the thresholds
// that it does not keep; checked reports whether there were any.
func (r Report) Page(w io.Writer, checked bool, broken []string) error {
	v := page.Page{
		Title: "weirlab load: " + r.Target, Sub: r.Load + " · " + stamp(r.Began), Good: kept(checked, broken), Bad: broken,
		Facts: []page.Fact{
			{Name: "offered", Value: fmt.Sprintf("%.1f/s", r.Offered), Note: fmt.Sprintf("%d requests in %.1f s", r.Requests, r.Elapsed)},
			{Name: "goodput", Value: fmt.Sprintf("%.1f/s", r.Goodput), Note: "answered with success and in time"},
			{Name: "failed", Value: percent(r.FailedShare), Note: fmt.Sprintf("%d requests", r.Failed)},
		},
		Parts: []page.Part{r.latencyTable(), r.statusTable()},
	}
	if late := r.late(); late != "" {
		v.Bad = append(v.Bad[:len(v.Bad):len(v.Bad)], late)
	}
	if l := r.Latency.Successes; l != nil {
		v.Facts = append(v.Facts, page.Fact{Name: "P99", Value: table.Seconds(l.P99), Note: "P50 " + table.Seconds(l.P50) + ", of the successes"})
	}
	if t := r.Traffic; t.Connections > 0 {
		v.Facts = append(v.Facts, page.Fact{Name: "received", Value: byteSize(t.Received), Note: fmt.Sprintf("%s sent, %d connections", byteSize(t.Sent), t.Connections)})
	}
	var curves []group
	for _, g := range r.groups() {
		if g.latency != nil && !(g.name == "all" && r.Succeeded == r.Requests) {
			curves = append(curves, g)
		}
	}
	if err := draw(&v, r.timeSheet(), percentileSheet(curves)); err != nil {
		return err
	}
	if l, name := r.answered(); l != nil {
		v.Parts = append(v.Parts, page.Part{Title: "Latency of " + name, Bars: barRows(l.bars())})
	}
	return v.Write(w)
}

// Page writes the comparison as a page that needs no other file. Broken are the figures
// that are worse than allowed; checked reports whether there was a bound.
func (c Comparison) Page(w io.Writer, checked bool, broken []string) error {
	v := page.Page{Title: "weirlab load: A and B", Good: kept(checked, broken), Bad: broken}
	for i, run := range []Run{c.Before, c.After} {
		v.Facts = append(v.Facts, page.Fact{Name: string(rune('A' + i)), Value: run.Name, Note: run.Report.about() + " · " + stamp(run.Report.Began)})
	}
	t := page.Table{Head: []string{"", "A", "B", "change", ""}}
	for _, f := range c.Figures {
		t.Rows = append(t.Rows, page.Row(f.Name, f.value(f.Before), f.value(f.After), f.change(), f.note()))
	}
	v.Parts = []page.Part{{Title: "What changed", Table: &t,
		Note: "Worse and better: beyond the noise of the two runs (95 %, if requests are independent). ~: within it. No sign: too few requests to tell, or no noise to compare with."}}
	var curves []group
	for i, run := range []Run{c.Before, c.After} {
		if l, name := run.Report.answered(); l != nil {
			curves = append(curves, group{string(rune('A'+i)) + ", " + name, []int{colorBefore, colorAfter}[i], l})
		}
	}
	if err := draw(&v, percentileSheet(curves), c.timeSheet()); err != nil {
		return err
	}
	return v.Write(w)
}

// draw adds a plot for each panel.
func draw(v *page.Page, sheets ...plot.Sheet) error {
	for _, s := range sheets {
		for i, p := range s.Panels {
			title := p.Title + " " + strings.ToLower(s.Title[:1]) + s.Title[1:]
			if len(s.Panels) == 1 {
				title = s.Title
			}
			if err := v.Draw(title, strings.Join(s.Notes, "; "), title, s, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r Report) latencyTable() page.Part {
	t := page.Table{Head: append([]string{""}, heads()...)}
	for _, g := range r.groups() {
		t.Rows = append(t.Rows, page.Row(append([]string{g.name}, g.latency.cells()...)...))
	}
	return page.Part{Title: "Latency", Table: &t, Note: "From the intended start of each request. A dash: too few requests for this percentile."}
}

func (r Report) statusTable() page.Part {
	t := page.Table{Head: []string{"status", "requests", "share", ""}}
	for _, label := range slices.Sorted(maps.Keys(r.ByStatus)) {
		n := r.ByStatus[label]
		t.Rows = append(t.Rows, page.Row(label, fmt.Sprint(n), percent(float64(n)/float64(r.Requests)), meanings[label]))
	}
	return page.Part{Title: "Answers", Table: &t}
}

func barRows(bars []bar) (rows []page.Bar) {
	most := int64(1)
	for _, b := range bars {
		most = max(most, b.count)
	}
	for _, b := range bars {
		rows = append(rows, page.Bar{Label: b.label(), Count: b.count, Width: 100 * float64(b.count) / float64(most)})
	}
	return rows
}
