package fleet

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/weir-go/weir/service/internal/table"
)

// Table writes results as text: a line for each, and for its jumps and faults.
func Table(w io.Writer, results []Result) error {
	out := bufio.NewWriter(w)
	rows := [][]string{{"variant", "policy", "leaves", "limit/s", "offered/s", "use", "over 1 s", "over 10 s", "unfair", "worst leaf", "exchanges/s", "reports/s", "asked", "degraded"}}
	for _, r := range results {
		use, unfair, worst := "–", "–", "–"
		if r.Steady.Until > r.Steady.From {
			use, unfair, worst = table.Percent(r.Steady.Use), table.Percent(r.Fair.Mean), table.Percent(r.Fair.Worst)
		}
		rows = append(rows, []string{
			cmp.Or(r.Name, "–"), r.Policy, fmt.Sprint(r.Leaves), table.Fixed(r.Limit, 0), table.Fixed(r.Total.Offered, 0), use,
			percent2(r.Total.Over1), percent2(r.Total.Over10), unfair, worst,
			table.Fixed(r.Total.Exchanges, 1), table.Fixed(r.Total.Reports, 1), table.Percent(r.Total.Decisions[Steps[exact]]), table.Percent(r.Total.below()),
		})
	}
	table.Write(out, rows, 0, 1)
	section(out, results, []string{"jump", "variant", "at", "leaf", "key", "share/s", "served after"}, func(r Result) (rows [][]string) {
		for _, j := range r.Jumps {
			served := "not in 30 s"
			if j.Served >= 0 {
				served = table.Duration(j.Served)
			}
			rows = append(rows, []string{j.At.String(), fmt.Sprint(j.Leaf), j.Key, table.Fixed(j.Share, 1), served})
		}
		return rows
	}, 0, 1)
	section(out, results, []string{"fault", "variant", "from", "until", "use", "over 1 s", "over 10 s", "exact", "assigned", "last", "share", "rule"}, func(r Result) (rows [][]string) {
		for _, f := range r.Faults {
			row := []string{f.From.String(), f.Until.String(), table.Percent(f.Use), percent2(f.Over1), percent2(f.Over10)}
			for _, st := range Steps {
				row = append(row, table.Percent(f.Decisions[st]))
			}
			rows = append(rows, row)
		}
		return rows
	}, 0, 1)
	return out.Flush()
}

func percent2(part float64) string { return table.Fixed(100*part, 2) + " %" }

// below returns the part of the decisions that a node without an assignment has made.
func (s Span) below() float64 {
	return s.Decisions[Steps[last]] + s.Decisions[Steps[share]] + s.Decisions[Steps[byRule]]
}

// section writes a table with the rows of each result, if there are any. The first columns
// are the number of the row, and the variant.
func section(out *bufio.Writer, results []Result, head []string, rowsOf func(Result) [][]string, texts ...int) {
	rows := [][]string{head}
	for _, r := range results {
		for i, row := range rowsOf(r) {
			label := fmt.Sprint(i + 1)
			if head[0] == "fault" {
				label = r.Faults[i].Kind
			}
			rows = append(rows, append([]string{label, cmp.Or(r.Name, "–")}, row...))
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(out)
		table.Write(out, rows, texts...)
	}
}

// Span returns the time of a fault, and its name.
func (f Faulty) String() string {
	if f.Until-f.From < time.Second {
		return f.Kind
	}
	return fmt.Sprintf("%s, %v", f.Kind, f.Until-f.From)
}
