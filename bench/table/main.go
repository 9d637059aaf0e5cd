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
	r := results{rows: map[string][]string{}, units: map[string][]string{}, runs: map[measure][]float64{}}
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
	cases []string
	rows  map[string][]string // the contenders of a case
	units map[string][]string // of a case
	cpus  []int
	runs  map[measure][]float64
}

type measure struct {
	name, row string // case and contender
	cpus      int
	unit      string
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
	r.cases = with(r.cases, group)
	r.rows[group] = with(r.rows[group], contender)
	r.cpus = with(r.cpus, cpus)
	slices.Sort(r.cpus)
	fields := strings.Fields(m[3])
	for i := 0; i+1 < len(fields); i += 2 {
		if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
			key := measure{group, contender, cpus, fields[i+1]}
			r.runs[key] = append(r.runs[key], v)
			r.units[group] = with(r.units[group], fields[i+1])
		}
	}
}

// with appends v, unless the list has it.
func with[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// unit returns the unit that a case compares: time, unless it reports another.
func (r *results) unit(name string) string {
	units := slices.DeleteFunc(slices.Clone(r.units[name]), func(unit string) bool {
		return unit == "B/op" || unit == "allocs/op"
	})
	if len(units) == 0 || slices.Contains(units, "ns/op") {
		return "ns/op"
	}
	return slices.Min(units)
}

// base returns the value that ratios of a case refer to, and the name of such a ratio.
func (r *results) base(name string, cpus int, unit string) (best float64, ratio string) {
	if slices.Contains(r.rows[name], "xtime") {
		return stat.Median(r.runs[measure{name, "xtime", cpus, unit}]), "/xtime"
	}
	best = math.NaN()
	for _, row := range r.rows[name] {
		if strings.HasPrefix(row, "weir") || strings.HasPrefix(row, "floor") {
			continue
		}
		if v := stat.Median(r.runs[measure{name, row, cpus, unit}]); v < best || math.IsNaN(best) {
			best = v
		}
	}
	return best, "/best peer"
}

func (r *results) write(out io.Writer) error {
	width := 0
	for _, name := range r.cases {
		width = max(width, len(name))
		for _, row := range r.rows[name] {
			width = max(width, len("  "+row))
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range r.cases {
		unit := r.unit(name)
		fmt.Fprintln(w, strings.Repeat("\t", 2+2*len(r.cpus))) // an empty line would end the columns
		fmt.Fprintf(w, "%-*s\t", width, name)
		for _, cpus := range r.cpus {
			plural := "s"
			if cpus == 1 {
				plural = ""
			}
			_, ratio := r.base(name, cpus, unit)
			fmt.Fprintf(w, "%s, %d CPU%s\t%s\t", unit, cpus, plural, ratio)
		}
		fmt.Fprintf(w, "allocs/op\t\n")
		for _, row := range r.rows[name] {
			fmt.Fprintf(w, "%-*s\t", width, "  "+row)
			allocs := math.NaN() // the same at any number of CPUs, or else the most
			for _, cpus := range r.cpus {
				v := stat.Median(r.runs[measure{name, row, cpus, unit}])
				base, _ := r.base(name, cpus, unit)
				fmt.Fprintf(w, "%s\t%s\t", cell("%.1f", v), cell("%.2f", v/base))
				if n := stat.Median(r.runs[measure{name, row, cpus, "allocs/op"}]); n > allocs || math.IsNaN(allocs) {
					allocs = n
				}
			}
			fmt.Fprintf(w, "%s\t\n", cell("%.0f", allocs))
		}
	}
	return w.Flush()
}

// cell formats a number, or a dash if it is none.
func cell(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
