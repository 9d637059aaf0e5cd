package arena

import (
	"io"
	"slices"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

// Draw writes the matrix as a heat map, in one of plot.Formats: the policies
// from the best to the worst, and beside them the policies that are told the knee.
func (r Result) Draw(w io.Writer, format string) error {
	h := plot.Heat{
		Title: "The arena: how each policy does in each scenario",
		Notes: []string{
			"weirlab arena · " + r.seeds() + " · " + r.knowledge(),
			"1 is best: 0.70 goodput / oracle + 0.10 latency + 0.10 recovery + 0.05 quick refusals + 0.05 fairness",
		},
	}
	var columns []int
	for _, outside := range []bool{false, true} {
		for _, st := range r.Standings {
			if st.Outside != outside {
				continue
			}
			h.Columns = append(h.Columns, star(st))
			columns = append(columns, r.column(st.Policy))
			if outside {
				h.Beside++
			}
		}
	}
	if h.Beside > 0 {
		h.Notes = append(h.Notes, "* is told the knee, which the others have to find or to guess")
	}
	for _, group := range r.byGroup() {
		var rows []plot.HeatRow
		mean := plot.HeatRow{Label: "mean", Values: make([]float64, len(columns))}
		for _, line := range group {
			row := plot.HeatRow{Label: line.Title}
			for i, k := range columns {
				row.Values = append(row.Values, line.Cells[k].Score)
				mean.Values[i] += line.Cells[k].Score / float64(len(group))
			}
			rows = append(rows, row)
		}
		h.Groups = append(h.Groups, rows, []plot.HeatRow{mean})
	}
	return plot.DrawHeat(w, h, format)
}

// column is the place of a policy in the matrix.
func (r Result) column(name string) int {
	return slices.IndexFunc(r.policies, func(p Policy) bool { return p.Name == name })
}
