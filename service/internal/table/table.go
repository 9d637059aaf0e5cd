// Package table writes tables of text, aligned by spaces.
package table

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Write writes rows, of which the first is the head: the columns in texts to the left,
// the others, of numbers, to the right. A row that has fewer cells than the head is a
// note, which may be wider than its columns.
func Write(w io.Writer, rows [][]string, texts ...int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for k, cell := range row {
			if len(row) == len(widths) {
				widths[k] = max(widths[k], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		var cells []string
		for k, cell := range row {
			pad := strings.Repeat(" ", max(widths[k]-utf8.RuneCountInString(cell), 0))
			if slices.Contains(texts, k) {
				cells = append(cells, cell+pad)
			} else {
				cells = append(cells, pad+cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "  "), " "))
	}
}

// Fixed formats a number with some digits after the point.
func Fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

// Percent formats a share.
func Percent(share float64) string { return Fixed(100*share, 1) + " %" }

// Duration formats a duration to three significant digits.
func Duration(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Seconds formats a time in seconds as Duration does.
func Seconds(s float64) string { return Duration(time.Duration(math.Round(s * 1e9))) }

// Count formats a number of things, such as 1 worker and 2 workers.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
