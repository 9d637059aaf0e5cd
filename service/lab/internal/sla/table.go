package sla

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// columns are the columns of the table of points.
var columns = []string{"offered", "row", "success", "goodput", "of best", "p50", "p95", "successes p50", "p95",
	"failures p50", "p95", "refusals p99", "at server", "verdict"}

func (p Point) cells() []string {
	return []string{
		fmt.Sprintf("%.4g", p.Rate), p.Row, fmt.Sprintf("%.1f %%", 100*p.Success), fmt.Sprintf("%.1f", p.Goodput),
		fmt.Sprintf("%.3f", p.OfBest), p.All.show(p.All.P50), p.All.show(p.All.P95),
		p.Successes.show(p.Successes.P50), p.Successes.show(p.Successes.P95),
		p.Failures.show(p.Failures.P50), p.Failures.show(p.Failures.P95),
		p.Refusals.show(p.Refusals.P99), p.Refusing.show(p.Refusing.P99), p.Verdict.String(),
	}
}

// show formats a quantile in milliseconds, or a dash if there were no requests.
func (l Latency) show(d time.Duration) string {
	if l.Count == 0 {
		return "–"
	}
	return milliseconds(d)
}

// milliseconds formats a duration to three digits.
func milliseconds(d time.Duration) string {
	digits := 0
	switch ms := float64(d) / 1e6; {
	case ms == 0:
	case ms < 0.1:
		digits = 4
	case ms < 10:
		digits = 2
	case ms < 100:
		digits = 1
	}
	return strconv.FormatFloat(float64(d)/1e6, 'f', digits, 64)
}

// Table writes the points and the slow-down as text. Latencies are in milliseconds.
func (r Result) Table(w io.Writer) error {
	out := bufio.NewWriter(w)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(columns, "\t"))
	busy := 0
	for i, p := range r.Points {
		if i > 0 && p.Rate != r.Points[i-1].Rate {
			fmt.Fprintln(tw, strings.Repeat("\t", len(columns)-1))
		}
		fmt.Fprintln(tw, strings.Join(p.cells(), "\t"))
		if p.Sending.P99 > Quiet {
			busy++
		}
	}
	_ = tw.Flush() // out keeps the error
	fmt.Fprintln(out)
	for _, line := range r.summary() {
		fmt.Fprintln(out, line)
	}
	if busy > 0 {
		fmt.Fprintf(out, "\nThe machine was busy with something else at %d of %d points: requests were sent more than %v late.\n",
			busy, len(r.Points), Quiet)
	}
	if len(r.Slow) > 0 {
		fmt.Fprintln(out)
	}
	for _, c := range r.Slow {
		fmt.Fprintln(out, c)
	}
	return out.Flush()
}

// String describes a Course in a line.
func (c Course) String() string {
	s := fmt.Sprintf("%g a second, and the upstream takes twice as long for %v; %s: goodput", c.Rate, c.Phase, c.Row)
	for phase, when := range []string{"before", "then", "after"} {
		s += fmt.Sprintf(" %.0f %s (p95 %s ms)", c.Goodput(phase), when, milliseconds(c.P95(phase)))
	}
	return s
}

// Markdown writes the points as a table in Markdown.
func (r Result) Markdown(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, p := range r.Points {
		fmt.Fprintf(out, "| %s |\n", strings.Join(p.cells(), " | "))
	}
	return out.Flush()
}

// CSV writes the points as CSV. Latencies are in seconds, and empty if there were no
// requests.
func (r Result) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"offered_rps", "row", "times", "requests", "success", "goodput_rps", "of_best", "verdict"}
	for _, what := range []string{"all", "successes", "failures", "refusals", "refusing", "sending"} {
		head = append(head, what+"_count", what+"_p50", what+"_p95", what+"_p99", what+"_p99.9", what+"_p99.99", what+"_max")
	}
	_ = out.Write(head) // Flush keeps the error
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, p := range r.Points {
		line := []string{
			number(p.Rate), p.Row, strconv.Itoa(p.Times), strconv.Itoa(p.Requests),
			number(p.Success), number(p.Goodput), number(p.OfBest), p.Verdict.String(),
		}
		for _, l := range []Latency{p.All, p.Successes, p.Failures, p.Refusals, p.Refusing, p.Sending} {
			line = append(line, strconv.Itoa(l.Count))
			for _, d := range []time.Duration{l.P50, l.P95, l.P99, l.P999, l.P9999, l.Max} {
				cell := ""
				if l.Count > 0 {
					cell = number(d.Seconds())
				}
				line = append(line, cell)
			}
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}
