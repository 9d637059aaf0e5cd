package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// A table sizes its columns to their content. If the screen is too narrow, it leaves
// out the columns of the lowest rank, and cuts the last one.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	title  string
	number bool // aligned right
	rank   int
	most   int // characters; 0 means any number
}

const (
	gap       = "  "
	leastLast = 24 // characters of the last column, unless it is the only one
)

// render returns lines of at most width characters; 0 means any number.
func (t *table) render(width int) (lines []string) {
	var titles []string
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		titles = append(titles, faint.Render(c.title))
		for _, row := range t.rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i]))
		}
		if c.most > 0 {
			widths[i] = min(widths[i], c.most)
		}
		widths[i] = max(widths[i], len(c.title))
	}
	shown := t.shown(widths, width)
	for _, row := range append([][]string{titles}, t.rows...) {
		var cells []string
		for _, i := range shown {
			cell := ansi.Truncate(row[i], widths[i], "…")
			pad := strings.Repeat(" ", widths[i]-lipgloss.Width(cell))
			if t.columns[i].number {
				cells = append(cells, pad+cell)
			} else {
				cells = append(cells, cell+pad)
			}
		}
		lines = append(lines, strings.TrimRight(strings.Join(cells, gap), " "))
	}
	return lines
}

// section returns the lines of a table, how many of all rows it leaves out, and a blank line.
func (t *table) section(width, all int) []string {
	lines := t.render(width)
	if rest := all - len(t.rows); rest > 0 {
		lines = append(lines, faint.Render(fmt.Sprintf("%d more", rest)))
	}
	return append(lines, "")
}

// shown returns the columns that fit, and adapts the width of the last.
func (t *table) shown(widths []int, width int) []int {
	shown := make([]int, len(t.columns))
	for i := range shown {
		shown[i] = i
	}
	if width == 0 {
		return shown
	}
	for {
		sum := 0
		for _, i := range shown[:len(shown)-1] {
			sum += widths[i] + len(gap)
		}
		last := shown[len(shown)-1]
		if left := width - sum; left >= min(widths[last], leastLast) || len(shown) == 1 {
			widths[last] = min(widths[last], max(left, 1))
			return shown
		}
		least := slices.MinFunc(shown, func(a, b int) int { return cmp.Compare(t.columns[a].rank, t.columns[b].rank) })
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == least })
	}
}

// wrapped breaks a text into lines between words.
func (v *view) wrapped(style lipgloss.Style, text string) []string {
	width := 100
	if v.width > 0 {
		width = max(min(v.width-4, width), 10)
	}
	lines := strings.Split(ansi.Wordwrap(text, width, ""), "\n")
	for i := range lines {
		lines[i] = style.Render(lines[i])
	}
	return lines
}

// facts puts texts beside each other, in lines that fit the screen.
func (v *view) facts(texts []string) (lines []string) {
	for _, text := range texts {
		last := len(lines) - 1
		if last >= 0 && (v.width == 0 || lipgloss.Width(lines[last]+gap+text) <= v.width) {
			lines[last] += gap + text
		} else {
			lines = append(lines, text)
		}
	}
	return lines
}

// highlit formats a number, faintly if it is 0.
func highlit(n float64, style lipgloss.Style) string {
	if n == 0 {
		style = faint
	}
	return style.Render(number(n))
}

// number formats a number with one decimal at most.
func number(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 10 && n != float64(int(n)):
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// digits formats a number with three significant digits.
func digits(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n >= 100:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 2-int(math.Floor(math.Log10(n))), 64)
}

// span formats a time in milliseconds with three significant digits.
func span(ms float64) string {
	if ms < 1000 {
		return digits(ms) + " ms"
	}
	return digits(ms/1000) + " s"
}

// wait formats a time in milliseconds.
func wait(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// age formats a time roughly.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}
