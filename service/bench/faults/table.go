package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// A table has the largest values of all plays.
type table struct {
	rows    []row
	seeds   int
	results [][]measure // by row: each of its measures, with the largest value
}

// add adds what a play of a row has measured.
func (t *table) add(i int, got []measure) {
	for _, m := range got {
		at := slices.IndexFunc(t.results[i], func(o measure) bool { return o.What == m.What })
		if at < 0 {
			t.results[i] = append(t.results[i], m)
		} else if t.results[i][at].Value < m.Value {
			t.results[i][at] = m
		}
	}
}

func (t *table) write(w io.Writer) {
	fmt.Fprintf(w, "| | fault | measured | bound | | largest of %d |\n|---|---|---|---|---|---|\n", t.seeds)
	family, fault := "", ""
	for i, r := range t.rows {
		for _, m := range t.results[i] {
			cells := []string{r.family, r.fault, m.What, fmt.Sprintf("[%s](%s)", m.Stated, m.Link), number(m.Bound, m.Unit), number(m.Value, m.Unit)}
			if !m.holds() {
				cells[5] = "**" + cells[5] + "**"
			}
			if r.family == family {
				cells[0] = ""
				if r.fault == fault {
					cells[1] = ""
				}
			}
			family, fault = r.family, r.fault
			fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}

func number(v float64, unit string) string {
	if unit != "" {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.0f", v)
}

// verdict returns an error for each value beyond its bound.
func (t *table) verdict() (err error) {
	for i, r := range t.rows {
		for _, m := range t.results[i] {
			if !m.holds() {
				err = errors.Join(err, fmt.Errorf("%s: %s: %.4g is beyond %.4g", r.name(), m.What, m.Value, m.Bound))
			}
		}
	}
	return err
}

// The table of the page is between these lines.
const (
	tableBegins = "<!-- make faults writes from here -->\n\n"
	tableEnds   = "\n<!-- to here -->"
)

// replaceTable writes the table into the page.
func replaceTable(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		return fmt.Errorf("%s has no place for the table, between %q and %q", page, strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	return os.WriteFile(page, []byte(before+tableBegins+table+tableEnds+after), 0o644)
}
