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
	fmt.Fprintf(out, "recording  %d requests in %v\n", r.Requests, time.Duration(r.Length*1e9).Round(100*time.Millisecond))
	if r.Before != nil {
		fmt.Fprintf(out, "limit      %s\n", r.Before)
	}
	if r.Replayed != nil {
		fmt.Fprintf(out, "service    %s\n", r.Station)
	}
	fmt.Fprintln(out)
	rows := [][]string{{"", "served", "rejected", "too late", "failed", "wasted", "p50", "p95", "p99"}}
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
		fmt.Fprintf(out, "\nThe median of %d runs, and their lowest and highest value.\n", r.Seeds)
	}
	if !r.Holds {
		fmt.Fprintln(out, "\nThe model does not hold, so what would have happened is not known:")
	}
	for _, reason := range r.Reasons {
		fmt.Fprintf(out, "- %s\n", reason)
	}
	return out.Flush()
}

// rows returns a row with the medians, and one with the ranges, where they are wide enough to be seen.
func (o *Outcome) rows(name string) [][]string {
	median, low, high := o.Median.cells(), o.Low.cells(), o.High.cells()
	ranges := []string{""}
	for i := range median {
		if low[i] == high[i] {
			ranges = append(ranges, "")
		} else {
			ranges = append(ranges, low[i]+"–"+high[i])
		}
	}
	return [][]string{append([]string{name}, median...), ranges}
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
			cells = append(cells, table.Duration(time.Duration(*v*1e9)))
		}
	}
	return cells
}
