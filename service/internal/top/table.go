package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/weir-go/weir/service/internal/terminal"
)

// A table sizes its columns to their content. If the screen is too narrow, it leaves
// out the columns of the lowest rank, and cuts the last one.
type table struct {
	columns []column
	rows    [][]cell
}

type column struct {
	title  string
	number bool // aligned right
	rank   int
	most   int // characters; 0 means any number
}

type cell struct {
	text  string
	style lipgloss.Style
}

const (
	gap       = "  "
	leastLast = 24 // characters of the last column, unless it is the only one
)

func (t *table) render(v *view) []string {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = lipgloss.Width(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i].text))
		}
		if c.most > 0 {
			widths[i] = min(widths[i], max(c.most, lipgloss.Width(c.title)))
		}
	}
	shown := t.shown(widths, v.width)
	titles := make([]cell, len(t.columns))
	for i, c := range t.columns {
		titles[i] = cell{c.title, v.style.faint}
	}
	lines := []string{t.line(titles, widths, shown)}
	for _, row := range t.rows {
		lines = append(lines, t.line(row, widths, shown))
	}
	return lines
}

// shown returns the columns that fit, and adapts the width of the last.
func (t *table) shown(widths []int, width int) []int {
	var shown []int
	for i := range t.columns {
		shown = append(shown, i)
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
		least := 0
		for i := range shown {
			if t.columns[shown[i]].rank < t.columns[shown[least]].rank {
				least = i
			}
		}
		shown = append(shown[:least:least], shown[least+1:]...)
	}
}

func (t *table) line(row []cell, widths, shown []int) string {
	var b strings.Builder
	for n, i := range shown {
		text := terminal.Cut(row[i].text, widths[i])
		pad := strings.Repeat(" ", max(widths[i]-lipgloss.Width(text), 0))
		switch {
		case t.columns[i].number:
			b.WriteString(pad + row[i].style.Render(text))
		case n == len(shown)-1:
			b.WriteString(row[i].style.Render(text))
		default:
			b.WriteString(row[i].style.Render(text) + pad)
		}
		if n < len(shown)-1 {
			b.WriteString(gap)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// fit cuts a text to the width of the screen.
func (v *view) fit(text string) string {
	if v.width == 0 {
		return text
	}
	return terminal.Cut(text, v.width)
}

func (v *view) clipped(lines ...string) []string {
	for i := range lines {
		lines[i] = v.fit(lines[i])
	}
	return lines
}

// wrapped breaks a text into lines between words.
func (v *view) wrapped(text string) (lines []string) {
	width := 100
	if v.width > 0 {
		width = max(min(v.width-4, width), 10)
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && lipgloss.Width(line+" "+word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return v.clipped(append(lines, line)...)
}

// number returns a cell that is faint if the number is 0.
func (v *view) number(n float64, style lipgloss.Style) cell {
	if n == 0 {
		style = v.style.faint
	}
	return cell{number(n), style}
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
