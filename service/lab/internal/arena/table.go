package arena

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/table"
)

// Table writes the leaderboard, the matrix, and where the policy that leads is
// beaten.
func (r Result) Table(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s, %s\n\n", r.seeds(), r.knowledge())
	rows := [][]string{{"policy", "score", "worst cell", "", "goodput", "worst", "", "p99/deadline", "slowest recovery", ""}}
	for _, st := range r.Standings {
		recovery := orDash(st.SlowestIn != "", seconds(st.Slowest))
		if st.Unrecovered > 0 {
			recovery = fmt.Sprintf("never in %d", st.Unrecovered)
		}
		rows = append(rows, []string{star(st), three(st.Score), three(st.Worst), st.WorstIn, table.Percent(st.Goodput), table.Percent(st.WorstShare), st.ShareIn,
			two(st.P99Share), recovery, st.SlowestIn})
	}
	table.Write(out, rows, 0, 3, 6, 9)
	fmt.Fprintln(out)

	r.scores(out)
	r.losses(out)
	r.legend(out)
	return out.Flush()
}

// scores writes the matrix and, if there are several groups of rows, the mean
// of each.
func (r Result) scores(out *bufio.Writer) {
	rows, groups := [][]string{cells("scenario", r.policies, Policy.name)}, r.byGroup()
	for _, group := range groups {
		mean := make([]float64, len(r.policies))
		for _, line := range group {
			for k, c := range line.Cells {
				mean[k] += c.Score / float64(len(group))
			}
			rows = append(rows, cells(line.Row, line.Cells, func(c Cell) string { return three(c.Score) }))
		}
		if len(groups) > 1 {
			rows = append(rows, cells(fmt.Sprintf("mean of %d %s rows", len(group), group[0].Group), mean, three))
		}
	}
	table.Write(out, rows, 0)
}

// cells is a row of a table.
func cells[T any](first string, others []T, text func(T) string) []string {
	row := []string{first}
	for _, x := range others {
		row = append(row, text(x))
	}
	return row
}

func (p Policy) name() string { return p.Name }

// star marks the policies outside.
func star(st Standing) string {
	if st.Outside {
		return st.Policy + " *"
	}
	return st.Policy
}

func (r Result) legend(out *bufio.Writer) {
	fmt.Fprintln(out)
	var rows [][]string
	for _, p := range r.policies {
		about := p.About
		if p.Outside {
			about += " (*)"
		}
		rows = append(rows, []string{p.Name, about})
	}
	table.Write(out, rows, 0, 1)
	if slices.ContainsFunc(r.policies, func(p Policy) bool { return p.Outside }) {
		fmt.Fprintln(out, "\n* is told the knee: shown to see what that is worth, and not compared with")
	}
}

// losses says in which scenarios the policy that leads was not the best.
func (r Result) losses(out *bufio.Writer) {
	k := r.leader()
	if k < 0 {
		return
	}
	rows := [][]string{{r.policies[k].Name + " loses", "to", "by", ""}}
	for _, line := range r.Matrix {
		best := r.best(line, k)
		if best < 0 || line.Cells[best].Score <= line.Cells[k].Score {
			continue
		}
		mine, other := line.Cells[k], line.Cells[best]
		rows = append(rows, []string{line.Row, other.Policy, three(other.Score - mine.Score), why(mine, other)})
	}
	if len(rows) > 1 {
		fmt.Fprintln(out)
		table.Write(out, rows, 0, 1, 3)
	}
}

// why names what one cell lost to another, the most first, if they are
// worth a hundredth.
func why(mine, other Cell) string {
	var parts []string
	for _, p := range components {
		if d := p.weight * (p.of(other) - p.of(mine)); d >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %s", p.name, three(d)))
		}
	}
	return strings.Join(parts, ", ")
}

// leader is the policy with the best mean score that is not outside.
func (r Result) leader() int {
	for _, st := range r.Standings {
		if !st.Outside {
			return r.column(st.Policy)
		}
	}
	return -1
}

// best is the best policy of a line, but for k and those outside; -1
// if there is none.
func (r Result) best(line Line, k int) int {
	best := -1
	for i, c := range line.Cells {
		if i != k && !r.policies[i].Outside && (best < 0 || c.Score > line.Cells[best].Score) {
			best = i
		}
	}
	return best
}

// Detail writes what each cell consists of.
func (r Result) Detail(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, line := range r.Matrix {
		fmt.Fprintf(out, "\n%s (%s, knee %d, deadline %v, oracle %s/s)\n\n", line.Title, line.Row, line.Knee, line.Cells[0].Deadline, one(line.Cells[0].OracleRPS))
		rows := [][]string{{"policy", "score", "goodput", "latency", "recovery", "reject", "fairness", "goodput/s", "of oracle", "worst seed", "mean", "p99", "recovered in", "no after", "limit", "Jain"}}
		for _, c := range line.Cells {
			recovered := orDash(c.Recovers, seconds(c.RecoveredIn))
			if !c.Recovered {
				recovered = "never"
			}
			limit, even := orDash(c.Limit > 0, one(c.Limit)), orDash(c.Even > 0, two(c.Even))
			rows = append(rows, []string{c.Policy, three(c.Score), three(c.Goodput), three(c.Latency), three(c.Recovery), three(c.Reject), three(c.Fairness),
				one(c.GoodputRPS), table.Percent(c.Goodput), table.Percent(c.WorstShare), millis(c.MeanLatency), millis(c.P99), recovered, millis(c.RejectP50), limit, even})
		}
		table.Write(out, rows, 0)
	}
	return out.Flush()
}

func (r Result) seeds() string {
	if r.Seeds == 1 {
		return "seed 1"
	}
	return fmt.Sprintf("seeds 1–%d", r.Seeds)
}

func (r Result) knowledge() string {
	if r.Deadlines {
		return "guards see the callers' deadlines"
	}
	return "guards do not see the callers' deadlines"
}

func orDash(known bool, text string) string {
	if known {
		return text
	}
	return "–"
}

func one(x float64) string           { return table.Fixed(x, 1) }
func two(x float64) string           { return table.Fixed(x, 2) }
func three(x float64) string         { return table.Fixed(x, 3) }
func seconds(d time.Duration) string { return one(d.Seconds()) + " s" }
func millis(d time.Duration) string  { return table.Fixed(d.Seconds()*1000, 0) + " ms" }
