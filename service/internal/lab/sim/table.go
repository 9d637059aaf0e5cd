package sim

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Table writes results as text: a line for each, and for its tenants, classes and layers
// if there are several.
func Table(w io.Writer, results []Result) error {
	out := bufio.NewWriter(w)
	rows := [][]string{{"variant", "offered/s", "goodput/s", "of oracle", "p50", "p95", "p99", "turned away", "timed out", "failed", "reject p99", "limit", "in flight"}}
	for _, r := range results {
		row := append([]string{named(r.Name)}, r.Figures.columns()...)
		score := "–"
		if r.Score > 0 {
			score = percent(r.Score)
		}
		row = slices.Insert(row, 3, score)
		reject := "–"
		if r.Rejections.Count > 0 {
			reject = short(r.Rejections.P99)
		}
		limit, inflight := r.guard()
		rows = append(rows, append(row, reject, limit, inflight))
	}
	align(out, rows)
	for _, group := range []struct {
		what    string
		figures func(Result) []Figures
	}{{"client", func(r Result) []Figures {
		if len(r.Tenants) == len(r.Clients) {
			return nil // the tenants are the clients
		}
		return r.Clients
	}}, {"tenant", Result.someTenants}, {"class", func(r Result) []Figures { return r.Classes }}} {
		groups(out, results, group.what, group.figures)
	}
	layers(out, results)
	instances(out, results)
	return out.Flush()
}

// instances writes a line for each instance of the guards that have several.
func instances(out *bufio.Writer, results []Result) {
	rows := [][]string{{"variant", "layer", "instance", "weight", "admitted/s", "goodput/s", "limit"}}
	for _, r := range results {
		name := named(r.Name)
		for _, l := range r.Layers {
			for _, in := range l.Instances[:min(len(l.Instances), mostTenants)] {
				limit := "none"
				if in.Limit > 0 {
					limit = number(in.Limit)
				}
				rows = append(rows, []string{name, l.Name, in.Name, number(in.Weight), number(in.Admitted), number(in.Goodput), limit})
				name = ""
			}
			if len(l.Instances) > 0 {
				note := fmt.Sprintf("Jain's index of equal instances %.3f", l.Jain)
				if more := len(l.Instances) - mostTenants; more > 0 {
					note += fmt.Sprintf(", %d more instances", more)
				}
				rows = append(rows, []string{"", note})
			}
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(out)
		align(out, rows)
	}
}

// mostTenants bounds the tenants, or instances, in a table.
const mostTenants = 12

func (r Result) someTenants() []Figures { return r.Tenants[:min(len(r.Tenants), mostTenants)] }

// columns are offered, goodput, p50, p95, p99, rejected, timed out, failed.
func (f Figures) columns() []string {
	ended, rejected := uint64(0), uint64(0)
	for label, n := range f.Outcomes {
		ended += n
		switch label {
		case "ok", "failed", "timeout":
		default:
			rejected += n
		}
	}
	share := func(n uint64) string {
		if ended == 0 {
			return "–"
		}
		return percent(float64(n) / float64(ended))
	}
	latencies := []string{"–", "–", "–"}
	if f.Latency.Count > 0 {
		latencies = []string{short(f.Latency.P50), short(f.Latency.P95), short(f.Latency.P99)}
	}
	return slices.Concat([]string{number(f.Offered), number(f.Goodput)}, latencies,
		[]string{share(rejected), share(f.Outcomes["timeout"]), share(f.Outcomes["failed"])})
}

func groups(out *bufio.Writer, results []Result, what string, of func(Result) []Figures) {
	fair := what == "tenant"
	head := []string{"variant", what, "offered/s", "goodput/s", "p50", "p95", "p99", "turned away", "timed out", "failed"}
	if fair {
		head = slices.Insert(head, 4, "of fair share")
	}
	rows := [][]string{head}
	for _, r := range results {
		for i, f := range of(r) {
			name := ""
			if i == 0 {
				name = named(r.Name)
			}
			row := append([]string{name, named(f.Name)}, f.columns()...)
			if fair {
				row = slices.Insert(row, 4, percent(f.FairShare))
			}
			rows = append(rows, row)
		}
		if fair && len(of(r)) > 0 {
			note := fmt.Sprintf("Jain's index %.3f", r.Jain)
			if more := len(r.Tenants) - mostTenants; more > 0 {
				note += fmt.Sprintf(", %d more tenants", more)
			}
			rows = append(rows, []string{"", note})
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(out)
		align(out, rows)
	}
}

func layers(out *bufio.Writer, results []Result) {
	rows := [][]string{{"variant", "layer", "arrived/s", "ok", "busy", "inside", "time inside", "limit", "in flight"}}
	for _, r := range results {
		if len(r.Layers) < 2 {
			return
		}
		seconds := (r.Duration - r.Warmup).Seconds()
		for i, l := range r.Layers {
			name := ""
			if i == 0 {
				name = named(r.Name)
			}
			limit, inflight := r.layerGuard(i)
			left := uint64(0)
			for _, n := range l.Outcomes {
				left += n
			}
			rows = append(rows, []string{name, l.Name, number(float64(l.Arrived) / seconds),
				percent(float64(l.Outcomes["ok"]) / float64(max(left, 1))), number(l.Busy), number(l.Inside), short(l.Sojourn), limit, inflight})
		}
	}
	fmt.Fprintln(out)
	align(out, rows)
}

// guard returns the mean limit and requests in flight over the second half of the run, of
// the first layer with a guard.
func (r Result) guard() (limit, inflight string) {
	for i, l := range r.Layers {
		if l.Guard != nil {
			return r.layerGuard(i)
		}
	}
	return "–", "–"
}

func (r Result) layerGuard(i int) (limit, inflight string) {
	if r.Layers[i].Guard == nil || len(r.Series) == 0 {
		return "–", "–"
	}
	half := r.Series[len(r.Series)/2:]
	l, n := 0.0, 0.0
	for _, st := range half {
		l += float64(st.Layers[i].Limit) / float64(len(half))
		n += float64(st.Layers[i].Inflight) / float64(len(half))
	}
	if limit = number(l); l > 1e9 {
		limit = "none"
	}
	return limit, number(n)
}

// named returns a name, or a dash.
func named(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" }

// number formats three significant digits, or all before the point.
func number(x float64) string {
	switch {
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
}

// short formats a duration to three significant digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// align writes a table: texts to the left, numbers to the right.
func align(out *bufio.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	text := make([]bool, len(rows[0]))
	for k, head := range rows[0] {
		text[k] = head == "variant" || head == "layer" || head == "tenant" || head == "class" || head == "client" || head == "instance"
	}
	for _, row := range rows {
		for k, cell := range row {
			if len(row) == len(rows[0]) {
				widths[k] = max(widths[k], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		line := ""
		for k, cell := range row {
			pad := strings.Repeat(" ", max(widths[k]-utf8.RuneCountInString(cell), 0))
			if k > 0 {
				line += "  "
			}
			if text[k] {
				line += cell + pad
			} else {
				line += pad + cell
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}
