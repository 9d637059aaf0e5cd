package sim

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/weir-go/weir/service/internal/table"
)

// Table writes results as text: a line for each, and for its tenants, classes and layers
// if there are several.
func Table(w io.Writer, results []Result) error {
	out := bufio.NewWriter(w)
	rows := [][]string{slices.Concat([]string{"variant", "offered/s", "goodput/s", "of oracle"}, figureColumns,
		[]string{"reject p99", "limit", "in flight"})}
	for _, r := range results {
		score, reject := "–", "–"
		if r.Score > 0 {
			score = table.Percent(r.Score)
		}
		if r.Rejections.Count > 0 {
			reject = table.Duration(r.Rejections.P99)
		}
		state := []string{"–", "–"}
		if i := slices.IndexFunc(r.Layers, func(l Visits) bool { return l.Guard != nil }); i >= 0 {
			state = r.guard(i)
		}
		rows = append(rows, slices.Concat([]string{cmp.Or(r.Name, "–"), number(r.Offered), number(r.Goodput), score},
			r.Figures.columns(), []string{reject}, state))
	}
	table.Write(out, rows, 0)

	figures := slices.Concat([]string{"offered/s", "goodput/s"}, figureColumns)
	section(out, results, append([]string{"client"}, figures...), func(r Result) (rows [][]string) {
		if len(r.Tenants) == len(r.Clients) {
			return nil // the tenants are the clients
		}
		return lines(r.Clients)
	}, 0, 1)
	section(out, results, slices.Insert(append([]string{"tenant"}, figures...), 3, "of fair share"), Result.tenants, 0, 1)
	section(out, results, append([]string{"class"}, figures...), func(r Result) [][]string { return lines(r.Classes) }, 0, 1)
	section(out, results, []string{"layer", "arrived/s", "ok", "busy", "inside", "time inside", "limit", "in flight"},
		Result.layers, 0, 1)
	section(out, results, []string{"layer", "instance", "weight", "admitted/s", "goodput/s", "limit"}, Result.instances, 0, 1, 2)
	return out.Flush()
}

// section writes a table with some rows for each result, if there are any.
func section(out *bufio.Writer, results []Result, head []string, rowsOf func(Result) [][]string, texts ...int) {
	rows := [][]string{append([]string{"variant"}, head...)}
	for _, r := range results {
		name := cmp.Or(r.Name, "–")
		for _, row := range rowsOf(r) {
			rows = append(rows, append([]string{name}, row...))
			name = ""
		}
	}
	if len(rows) == 1 {
		return
	}
	fmt.Fprintln(out)
	table.Write(out, rows, texts...)
}

// maxLines bounds the tenants of a result, or the instances of a layer, in a table.
const maxLines = 12

// footnote returns a row that follows the first of n items.
func footnote(n int, items, label string, jain float64) []string {
	text := fmt.Sprintf("%s %.3f", label, jain)
	if more := n - maxLines; more > 0 {
		text += fmt.Sprintf(", %d more %s", more, items)
	}
	return []string{text}
}

func (r Result) tenants() [][]string {
	if len(r.Tenants) == 0 {
		return nil
	}
	some := r.Tenants[:min(len(r.Tenants), maxLines)]
	rows := lines(some)
	for i, f := range some {
		rows[i] = slices.Insert(rows[i], 3, table.Percent(f.FairShare))
	}
	return append(rows, footnote(len(r.Tenants), "tenants", "Jain's index", r.Jain))
}

func (r Result) layers() (rows [][]string) {
	if len(r.Layers) < 2 {
		return nil
	}
	seconds := (r.Duration - r.Warmup).Seconds()
	for i, l := range r.Layers {
		left := uint64(0)
		for _, n := range l.Outcomes {
			left += n
		}
		good := float64(l.Outcomes["ok"]) / float64(max(left, 1))
		rows = append(rows, append([]string{l.Name, number(float64(l.Arrived) / seconds), table.Percent(good),
			number(l.Busy), number(l.Inside), table.Duration(l.Sojourn)}, r.guard(i)...))
	}
	return rows
}

func (r Result) instances() (rows [][]string) {
	for _, l := range r.Layers {
		for _, in := range l.Instances[:min(len(l.Instances), maxLines)] {
			limit := "none"
			if in.Limit > 0 {
				limit = number(in.Limit)
			}
			rows = append(rows, []string{l.Name, in.Name, number(in.Weight), number(in.Admitted), number(in.Goodput), limit})
		}
		if len(l.Instances) > 0 {
			rows = append(rows, footnote(len(l.Instances), "instances", "Jain's index of equal instances", l.Jain))
		}
	}
	return rows
}

// lines returns a row for each of some groups of calls.
func lines(groups []Figures) (rows [][]string) {
	for _, f := range groups {
		row := []string{cmp.Or(f.Name, "–"), number(f.Offered), number(f.Goodput)}
		rows = append(rows, append(row, f.columns()...))
	}
	return rows
}

var figureColumns = []string{"p50", "p95", "p99", "turned away", "timed out", "failed"}

// columns returns the cells of figureColumns.
func (f Figures) columns() []string {
	cells := []string{"–", "–", "–", "–", "–", "–"}
	if f.Latency.Count > 0 {
		cells[0], cells[1], cells[2] = table.Duration(f.Latency.P50), table.Duration(f.Latency.P95), table.Duration(f.Latency.P99)
	}
	ended := uint64(0)
	for _, n := range f.Outcomes {
		ended += n
	}
	if ended > 0 {
		out, failed := f.Outcomes["timeout"], f.Outcomes["failed"]
		for i, n := range []uint64{ended - f.Outcomes["ok"] - out - failed, out, failed} {
			cells[3+i] = table.Percent(float64(n) / float64(ended))
		}
	}
	return cells
}

// guard returns the mean limit and the mean requests in flight of a layer's guard over
// the second half of the run.
func (r Result) guard(layer int) []string {
	if r.Layers[layer].Guard == nil {
		return []string{"–", "–"}
	}
	limit, inflight := r.MeanState(layer)
	if limit > Unlimited {
		return []string{"none", number(inflight)}
	}
	return []string{number(limit), number(inflight)}
}

// number formats three significant digits, or all before the point.
func number(x float64) string {
	switch {
	case x >= 100:
		return table.Fixed(x, 0)
	case x >= 10:
		return table.Fixed(x, 1)
	default:
		return table.Fixed(x, 2)
	}
}
