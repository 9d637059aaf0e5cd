// Command table reads the output of go test -bench, passes it on, and ends with
// a table: contenders side by side, the median of their repetitions, and how
// they compare.
//
//	go test -bench . -benchmem -cpu 1,2 -count 3 | go run ./table
//
// A benchmark's name is its case and, after the last slash, its contender. A
// ratio below 1 is cheaper than x/time ("xtime") or, where that is not among
// the contenders, than the best peer: a contender other than "weir" and "floor".
//
// It fails if a benchmark did, or if there is none: a pipe hides the status of
// go test.
package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weir-go/weir/bench/internal/stat"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// run copies in to out, line by line, and writes the tables.
func run(in io.Reader, out io.Writer) error {
	var r results
	failed, passed := false, false
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(out, line)
		r.add(line)
		failed = failed || strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL")
		passed = passed || strings.HasPrefix(line, "ok ")
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := r.write(out); err != nil {
		return err
	}
	switch {
	case failed || !passed:
		return fmt.Errorf("go test failed, or did not finish")
	case len(r.cases) == 0:
		return fmt.Errorf("no benchmarks")
	}
	return nil
}

// results are in order of first appearance.
type results struct {
	cases []*benchCase
	cpus  []int
}

type benchCase struct {
	name string
	rows []*row
}

// A row has the measurements of one contender.
type row struct {
	name string
	runs map[measure][]float64
}

type measure struct {
	cpus int
	unit string
}

// Name, GOMAXPROCS unless it is 1, iterations, and pairs of value and unit.
var benchLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-(\d+))?\s+\d+\s+(\S.*)$`)

// add parses a line of output, and ignores lines without a result.
func (r *results) add(line string) {
	m := benchLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	cpus := 1
	if m[2] != "" {
		cpus, _ = strconv.Atoi(m[2])
	}
	group, contender := "", m[1]
	if i := strings.LastIndexByte(m[1], '/'); i >= 0 {
		group, contender = m[1][:i], m[1][i+1:]
	}
	fields := strings.Fields(m[3])
	row := r.row(group, contender)
	for i := 0; i+1 < len(fields); i += 2 {
		if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
			key := measure{cpus, fields[i+1]}
			row.runs[key] = append(row.runs[key], v)
		}
	}
	if !slices.Contains(r.cpus, cpus) {
		r.cpus = append(r.cpus, cpus)
		slices.Sort(r.cpus)
	}
}

func (r *results) row(group, contender string) *row {
	i := slices.IndexFunc(r.cases, func(c *benchCase) bool { return c.name == group })
	if i < 0 {
		i = len(r.cases)
		r.cases = append(r.cases, &benchCase{name: group})
	}
	c := r.cases[i]
	j := slices.IndexFunc(c.rows, func(row *row) bool { return row.name == contender })
	if j < 0 {
		j = len(c.rows)
		c.rows = append(c.rows, &row{contender, map[measure][]float64{}})
	}
	return c.rows[j]
}

// median returns the median of the repetitions, which is not a number if there are none.
func (r *row) median(cpus int, unit string) float64 { return stat.Median(r.runs[measure{cpus, unit}]) }

// unit returns the unit that a case compares: time, unless it reports another.
func (c *benchCase) unit() string {
	units := []string{}
	for key := range c.rows[0].runs {
		switch key.unit {
		case "ns/op":
			return key.unit
		case "B/op", "allocs/op":
		default:
			units = append(units, key.unit)
		}
	}
	if len(units) == 0 {
		return "ns/op"
	}
	return slices.Min(units)
}

// base returns the value that ratios refer to, and the name of such a ratio.
func (c *benchCase) base(cpus int, unit string) (best float64, ratio string) {
	best, ratio = math.NaN(), "/best peer"
	for _, row := range c.rows {
		switch v := row.median(cpus, unit); {
		case row.name == "xtime":
			return v, "/xtime"
		case strings.HasPrefix(row.name, "weir"), strings.HasPrefix(row.name, "floor"):
		case v < best || math.IsNaN(best):
			best = v
		}
	}
	return best, ratio
}

func (r *results) write(out io.Writer) error {
	width := 0
	for _, c := range r.cases {
		width = max(width, len(c.name))
		for _, row := range c.rows {
			width = max(width, len("  "+row.name))
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, c := range r.cases {
		unit := c.unit()
		fmt.Fprintln(w, strings.Repeat("\t", 2+2*len(r.cpus))) // an empty line would end the columns
		fmt.Fprintf(w, "%-*s\t", width, c.name)
		for _, cpus := range r.cpus {
			plural := "s"
			if cpus == 1 {
				plural = ""
			}
			_, ratio := c.base(cpus, unit)
			fmt.Fprintf(w, "%s, %d CPU%s\t%s\t", unit, cpus, plural, ratio)
		}
		fmt.Fprintf(w, "allocs/op\t\n")
		for _, row := range c.rows {
			fmt.Fprintf(w, "%-*s\t", width, "  "+row.name)
			for _, cpus := range r.cpus {
				v := row.median(cpus, unit)
				base, _ := c.base(cpus, unit)
				fmt.Fprintf(w, "%s\t%s\t", cell("%.1f", v), cell("%.2f", v/base))
			}
			fmt.Fprintf(w, "%s\t\n", row.allocs(r.cpus))
		}
	}
	return w.Flush()
}

// allocs are the same at any number of CPUs, or else the worst counts.
func (r *row) allocs(cpus []int) string {
	most := math.NaN()
	for _, n := range cpus {
		if v := r.median(n, "allocs/op"); v > most || math.IsNaN(most) {
			most = v
		}
	}
	return cell("%.0f", most)
}

// cell formats a number, or a dash if it is none.
func cell(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
