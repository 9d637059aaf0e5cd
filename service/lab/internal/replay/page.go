package replay

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/page"
)

// Page writes the report as a page of HTML.
func (r *Report) Page(w io.Writer) error {
	p := page.Page{Title: "weirlab replay: " + filepath.Base(r.File), Sub: r.about(), Answer: r.answer()}
	if r.Cut != "" {
		p.Bad = []string{r.Cut}
	}
	if len(r.Reasons) > 0 {
		title := "Why the model does not hold"
		if r.Holds {
			title = "What the model lacks"
		}
		p.Parts = append(p.Parts, page.Part{Title: title, Items: r.Reasons})
	}
	p.Parts = append(p.Parts, r.table())
	sheet := r.sheet()
	for i, panel := range sheet.Panels {
		if err := p.Draw(panel.Title, "By the time at which the requests came.", panel.Title+" over time: what happened, and what would have. The table has the totals.", sheet, i); err != nil {
			return err
		}
	}
	return p.Write(w)
}

// about says what was recorded.
func (r *Report) about() string {
	text := fmt.Sprintf("%s in %v", table.Count(r.Requests, "request"), time.Duration(r.Length*1e9).Round(100*time.Millisecond))
	if r.Before != nil {
		text += " · limit in force: " + r.Before.String()
	}
	if r.Replayed != nil {
		text += " · service: " + r.Station.String()
	}
	return text
}

// answer says which limit would have served the most.
func (r *Report) answer() []string {
	if !r.Holds {
		return []string{unheld + "."}
	}
	best := slices.MaxFunc(r.Outcomes, func(a, b Outcome) int { return cmp.Compare(a.Median.Served, b.Median.Served) })
	was, would := r.Happened.cells(), best.Median.cells()
	if best.Median.Served <= r.Replayed.Median.Served {
		return []string{fmt.Sprintf("None of these limits would have served more: %s of %d requests were served in time.", was[0], r.Requests)}
	}
	sentence := fmt.Sprintf("The limit %s would have served %s of %d requests in time", best.Policy, would[0], r.Requests)
	if between := best.ranges()[0]; between != "" {
		sentence += " (" + between + ")"
	}
	return []string{
		sentence + "; " + was[0] + " were.",
		fmt.Sprintf("P95 would have been %s in place of %s, and %s requests would have been rejected in place of %s.", would[6], was[6], would[1], was[1]),
	}
}

// table is Table.
func (r *Report) table() page.Part {
	t := page.Table{Head: columns}
	t.Rows = append(t.Rows, page.Row(append([]string{"what happened"}, r.Happened.cells()...)...))
	part := page.Part{Title: "What happened, and what would have", Table: &t}
	if !r.Holds {
		part.Title = "What happened"
	}
	add := func(name string, o *Outcome) {
		row := page.Row(append([]string{name}, o.Median.cells()...)...)
		for i, text := range o.ranges() {
			row[i+1].Below = text
		}
		t.Rows = append(t.Rows, row)
	}
	if r.Replayed != nil {
		part.Note = runs(r.Seeds)
		add("the same, replayed", r.Replayed)
	}
	for i := range r.Outcomes {
		add("limit "+r.Outcomes[i].Policy, &r.Outcomes[i])
	}
	return part
}
