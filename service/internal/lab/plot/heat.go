package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Heat is a heat map of numbers in [0, 1]; higher ones are better.
type Heat struct {
	Title   string
	Notes   []string // below the title, smaller
	Columns []string
	Groups  [][]HeatRow // of rows, with a gap between them
	Beside  int         // number of columns at the end that are set apart and not compared

	labels vg.Length // the width of the column of labels
}

// A HeatRow has a value for each column. The best of the compared values have a frame.
type HeatRow struct {
	Label  string
	Values []float64
}

// Sizes of a Heat, in points.
const (
	heatLabels = 158 // the least width of the column of labels
	heatIndent = 20  // added to the width of the longest label
	heatWidth  = 68  // of a cell
	heatHeight = 21
	heatGap    = 9 // between groups
	heatHead   = 40
	heatNote   = 15
	heatColumn = 24 // the row of column names
	heatScale  = 44 // the key to the colours
)

// labelWidth returns the width of the column of labels.
func (h Heat) labelWidth() vg.Length {
	style, wide := textStyle(10, ink, false), vg.Length(heatLabels)
	for _, g := range h.Groups {
		for _, row := range g {
			wide = max(wide, style.Width(row.Label)+heatIndent)
		}
	}
	return wide
}

func (h Heat) size() (wide, high vg.Length) {
	high = heatHead + heatColumn + heatScale + vg.Length(len(h.Notes))*heatNote
	for _, g := range h.Groups {
		high += vg.Length(len(g))*heatHeight + heatGap
	}
	wide = h.labels + vg.Length(len(h.Columns))*heatWidth + 16
	if h.Beside > 0 {
		wide += heatGap
	}
	return wide, high
}

// DrawHeat writes the table in one of Formats.
func DrawHeat(w io.Writer, h Heat, format string) error {
	h.labels = h.labelWidth()
	wide, high := h.size()
	return paint(w, wide, high, format, h.draw)
}

// left returns the left edge of a column.
func (h Heat) left(k int) vg.Length {
	x := h.labels + vg.Length(k)*heatWidth
	if k >= len(h.Columns)-h.Beside {
		x += heatGap
	}
	return x
}

func (h Heat) draw(c draw.Canvas) {
	y := c.Max.Y - 24
	write(c, h.Title, vg.Point{X: 12, Y: y}, 15, ink, true)
	for _, note := range h.Notes {
		y -= heatNote
		write(c, note, vg.Point{X: 12, Y: y}, 10, faint, false)
	}
	y -= heatColumn + 6
	for k, name := range h.Columns {
		centre(c, name, h.left(k)+heatWidth/2, y+5, 10, ink, true)
	}
	for _, group := range h.Groups {
		for _, row := range group {
			y -= heatHeight
			row.draw(c, h, y)
		}
		y -= heatGap
	}
	h.scale(c, y-8)
}

func (r HeatRow) draw(c draw.Canvas, h Heat, y vg.Length) {
	label := textStyle(10, ink, false)
	c.FillText(label, vg.Point{X: h.labels - 8 - label.Width(r.Label), Y: y + 7}, r.Label)
	best := 0.0
	for _, v := range r.Values[:len(r.Values)-h.Beside] {
		best = max(best, round(v))
	}
	for k, v := range r.Values {
		box := vg.Rectangle{Min: vg.Point{X: h.left(k) + 1, Y: y + 1}, Max: vg.Point{X: h.left(k) + heatWidth - 1, Y: y + heatHeight - 1}}
		shade := heat(v)
		c.SetColor(shade)
		c.Fill(box.Path())
		first := k < len(r.Values)-h.Beside && round(v) == best
		if first {
			c.SetLineStyle(stroke(ink, 1.6, nil))
			c.Stroke(box.Path())
		}
		centre(c, fmt.Sprintf("%.2f", v), (box.Min.X+box.Max.X)/2, y+7, 10, on(shade), first)
	}
}

// round rounds to the precision that is shown.
func round(v float64) float64 { return math.Round(v*100) / 100 }

// scale draws the key of the colours.
func (h Heat) scale(c draw.Canvas, y vg.Length) {
	const steps, wide = 240, 240
	for i := range steps {
		v := float64(i) / (steps - 1)
		c.SetColor(heat(v))
		x := h.labels + wide*vg.Length(i)/steps
		c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - 8}, Max: vg.Point{X: x + wide/steps + 0.5, Y: y + 2}}.Path())
	}
	for _, v := range []float64{0, 0.5, 0.8, 1} {
		centre(c, fmt.Sprintf("%g", v), h.labels+wide*vg.Length(v), y-19, 9, faint, false)
	}
	write(c, "framed: the best of the row", vg.Point{X: h.labels + wide + 24, Y: y - 7}, 10, faint, false)
}

func centre(c draw.Canvas, s string, x, y, size vg.Length, shade color.Color, bold bool) {
	style := textStyle(size, shade, bold)
	c.FillText(style, vg.Point{X: x - style.Width(s)/2, Y: y}, s)
}

// heats are the colours from bad to good: from orange over white to blue, which
// colour-blind readers can tell apart. Half of the colours are for values above 0.8.
var heats = []struct {
	at      float64
	r, g, b float64
}{
	{0, 166, 74, 10}, {0.4, 230, 140, 60}, {0.7, 250, 215, 170}, {0.82, 246, 246, 242}, {0.92, 158, 200, 228}, {1, 18, 92, 160},
}

func heat(v float64) color.RGBA {
	v = min(max(v, 0), 1)
	for i := 1; i < len(heats); i++ {
		if from, to := heats[i-1], heats[i]; v <= to.at {
			part := (v - from.at) / (to.at - from.at)
			mix := func(a, b float64) uint8 { return uint8(math.Round(a + (b-a)*part)) }
			return color.RGBA{mix(from.r, to.r), mix(from.g, to.g), mix(from.b, to.b), 0xff}
		}
	}
	return color.RGBA{A: 0xff}
}

// on returns the colour of text on another colour.
func on(c color.RGBA) color.Color {
	if 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) < 135 {
		return color.White
	}
	return ink
}
