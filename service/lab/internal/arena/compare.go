package arena

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/weir-go/weir/service/internal/table"
)

// A Comparison compares the goodput of one policy with that of the best of the
// others. Policies that are told the knee count among the others.
type Comparison struct {
	Policy string  `json:"policy"`
	Modes  []Mode  `json:"modes"`
	Cells  []Share `json:"cells"`
}

// A Mode is the mean of the cells of one group of rows.
type Mode struct {
	Group string  `json:"group"`
	Cells int     `json:"cells"`
	Share float64 `json:"share"`     // mean; each cell counts for at most 1
	Below int     `json:"below_0.8"` // cells with a share below 0.8
	Worst float64 `json:"worst"`
	In    string  `json:"worst_in"`
}

// A Share is a policy's goodput as a share of the best of the others.
type Share struct {
	Row     string  `json:"scenario"`
	Group   string  `json:"group"`
	Share   float64 `json:"share"`
	Best    string  `json:"best"`    // of the others
	Goodput float64 `json:"goodput"` // of the policy, as a share of the oracle's
}

// poor is a share of the best that is worth a look.
const poor = 0.8

// Compare compares a policy, which must be one of Config's, with the others.
func (r Result) Compare(policy string) Comparison {
	c, k := Comparison{Policy: policy}, r.column(policy)
	for _, group := range r.byGroup() {
		m := Mode{Group: group[0].Group, Cells: len(group)}
		for _, line := range group {
			goodput := func(c Cell) float64 {
				if line.Group == Street { // as in its score
					return c.Work
				}
				return c.GoodputRPS
			}
			best := Cell{}
			for i, cell := range line.Cells {
				if i != k && goodput(cell) > goodput(best) {
					best = cell
				}
			}
			s := Share{Row: line.Row, Group: line.Group, Share: 1, Best: best.Policy, Goodput: line.Cells[k].Goodput}
			if goodput(best) > 0 {
				s.Share = goodput(line.Cells[k]) / goodput(best)
			}
			c.Cells = append(c.Cells, s)
			m.Share += min(s.Share, 1) / float64(len(group))
			if s.Share < poor {
				m.Below++
			}
			if m.In == "" || s.Share < m.Worst {
				m.Worst, m.In = s.Share, s.Row
			}
		}
		c.Modes = append(c.Modes, m)
	}
	return c
}

// byGroup returns the lines of each group, in the order of the first of each.
func (r Result) byGroup() (groups [][]Line) {
	for _, line := range r.Matrix {
		i := slices.IndexFunc(groups, func(g []Line) bool { return g[0].Group == line.Group })
		if i < 0 {
			i = len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], line)
	}
	return groups
}

// CompareTable writes the goodput of each policy as a share of the oracle's,
// and what Compare says of one of them.
func (r Result) CompareTable(w io.Writer, policy string) error {
	out := bufio.NewWriter(w)
	c := r.Compare(policy)
	fmt.Fprintf(out, "%s, %s: goodput / oracle\n\n", r.seeds(), r.knowledge())
	rows := [][]string{append(cells("scenario", r.policies, Policy.name), policy+" / best", "best of the others")}
	for _, group := range r.byGroup() {
		for _, line := range group {
			share := c.Cells[len(rows)-1]
			if share.Share < poor {
				share.Best += " <"
			}
			row := cells(line.Row, line.Cells, func(c Cell) string { return three(c.Goodput) })
			rows = append(rows, append(row, three(share.Share), share.Best))
		}
	}
	table.Write(out, rows, 0, len(rows[0])-1)
	rows = [][]string{{"mode", "cells", policy + " / best, mean", fmt.Sprintf("below %v", poor), "worst", ""}}
	for _, m := range c.Modes {
		rows = append(rows, []string{cmp.Or(m.Group, "–"), fmt.Sprint(m.Cells), three(m.Share), fmt.Sprint(m.Below), three(m.Worst), m.In})
	}
	fmt.Fprintln(out)
	table.Write(out, rows, 0, 5)
	fmt.Fprintf(out, "\n%s / best is its goodput / that of the best of the others, the knee included; in a mean each counts for at most 1\n", policy)
	return out.Flush()
}
