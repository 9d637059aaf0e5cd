package replay

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir/service/internal/table"
)

// Table writes the report as text.
func (r *Report) Table(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "recording  %s in %v\n", table.Count(r.Requests, "request"), time.Duration(r.Length*1e9).Round(100*time.Millisecond))
	if r.Before != nil {
		fmt.Fprintf(out, "limit      %s\n", r.Before)
	}
	if r.Replayed != nil {
		fmt.Fprintf(out, "service    %s\n", r.Station)
	}
	fmt.Fprintln(out)
	rows := [][]string{columns}
	rows = append(rows, append([]string{"what happened"}, r.Happened.cells()...))
	if r.Replayed != nil {
		rows = append(rows, r.Replayed.rows("the same, replayed")...)
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		rows = append(rows, o.rows("limit "+o.Policy)...)
	}
	table.Write(out, rows, 0)
	if r.Replayed != nil {
		fmt.Fprintf(out, "\n%s\n", runs(r.Seeds))
	}
	if !r.Holds {
		fmt.Fprintf(out, "\n%s:\n", unheld)
	}
	for _, reason := range r.Reasons {
		fmt.Fprintf(out, "- %s\n", reason)
	}
	return out.Flush()
}

// columns are the titles of the tables.
var columns = []string{"", "served", "rejected", "too late", "failed", "wasted", "p50", "p95", "p99"}

const unheld = "The model does not hold, so what would have happened is not known"

// runs says what the figures of an Outcome are.
func runs(n int) string {
	return fmt.Sprintf("The median of %d runs, and their lowest and highest value.", n)
}

// rows returns a row with the medians, and one with the ranges.
func (o *Outcome) rows(name string) [][]string {
	return [][]string{append([]string{name}, o.Median.cells()...), append([]string{""}, o.ranges()...)}
}

// ranges returns the lowest and the highest value of each figure, where they differ enough to be seen.
func (o *Outcome) ranges() []string {
	low, high := o.Low.cells(), o.High.cells()
	for i := range low {
		if low[i] == high[i] {
			low[i] = ""
		} else {
			low[i] += "–" + high[i]
		}
	}
	return low
}

// cells returns the figures as text.
func (f *Figures) cells() (cells []string) {
	for i, v := range f.fields() {
		switch {
		case i < 5:
			cells = append(cells, fmt.Sprint(math.Round(*v)))
		case *v == 0:
			cells = append(cells, "–")
		default:
			cells = append(cells, table.Seconds(*v))
		}
	}
	return cells
}
