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
}

// A HeatRow has a value for each column. The best of the compared values have a frame.
type HeatRow struct {
	Label  string
	Values []float64
}

// Sizes of a Heat, in points.
const (
	cellWidth  = 68
	cellHeight = 21
	groupGap   = 9  // between groups, and before the columns beside
	scaleHead  = 75 // the row of column names, and the key to the colours
	scaleWidth = 240
)

// DrawHeat writes the table in one of Formats.
func DrawHeat(w io.Writer, h Heat, format string) error {
	left, height := vg.Length(158), headHeight(h.Notes)+scaleHead
	for _, g := range h.Groups {
		height += vg.Length(len(g))*cellHeight + groupGap
		for _, row := range g {
			left = max(left, textStyle(10, Ink, false).Width(row.Label)+20)
		}
	}
	edges := make([]vg.Length, len(h.Columns)) // the left edges of the columns
	for k := range edges {
		edges[k] = left + vg.Length(k)*cellWidth
		if k >= len(edges)-h.Beside {
			edges[k] += groupGap
		}
	}
	width := left + 16 + groupGap + max(vg.Length(len(edges))*cellWidth, scaleWidth+160)
	return paint(w, width, height, format, func(c draw.Canvas) {
		y := heading(c, h.Title, h.Notes) - 30
		for k, name := range h.Columns {
			centre(c, name, edges[k]+cellWidth/2, y+5, 10, Ink, true)
		}
		for _, group := range h.Groups {
			for _, row := range group {
				y -= cellHeight
				row.draw(c, edges, h.Beside, y)
			}
			y -= groupGap
		}
		scale(c, left, y-8)
	})
}

func (r HeatRow) draw(c draw.Canvas, edges []vg.Length, beside int, y vg.Length) {
	write(c, r.Label, vg.Point{X: edges[0] - 8 - textStyle(10, Ink, false).Width(r.Label), Y: y + 7}, 10, Ink, false)
	best := 0.0
	for _, v := range r.Values[:len(r.Values)-beside] {
		best = max(best, round(v))
	}
	for k, v := range r.Values {
		shade := heat(v)
		box := fill(c, shade, edges[k]+1, y+1, edges[k]+cellWidth-1, y+cellHeight-1)
		first := k < len(r.Values)-beside && round(v) == best
		if first {
			c.SetLineStyle(Stroke(Ink, 1.6, nil))
			c.Stroke(box)
		}
		var text color.Color = Ink
		if 0.299*float64(shade.R)+0.587*float64(shade.G)+0.114*float64(shade.B) < 135 { // luma
			text = color.White
		}
		centre(c, fmt.Sprintf("%.2f", v), edges[k]+cellWidth/2, y+7, 10, text, first)
	}
}

// round rounds to the precision that is shown.
func round(v float64) float64 { return math.Round(v*100) / 100 }

func fill(c draw.Canvas, shade color.Color, x0, y0, x1, y1 vg.Length) vg.Path {
	box := vg.Rectangle{Min: vg.Point{X: x0, Y: y0}, Max: vg.Point{X: x1, Y: y1}}.Path()
	c.SetColor(shade)
	c.Fill(box)
	return box
}

// scale draws the key of the colours.
func scale(c draw.Canvas, x, y vg.Length) {
	for i := vg.Length(0); i < scaleWidth; i++ {
		fill(c, heat(float64(i)/(scaleWidth-1)), x+i, y-8, x+i+1.5, y+2)
	}
	for _, v := range []float64{0, 0.5, 0.8, 1} {
		centre(c, fmt.Sprintf("%g", v), x+scaleWidth*vg.Length(v), y-19, 9, faint, false)
	}
	write(c, "framed: the best of the row", vg.Point{X: x + scaleWidth + 24, Y: y - 7}, 10, faint, false)
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
	i := 1
	for v > heats[i].at {
		i++
	}
	from, to := heats[i-1], heats[i]
	part := (v - from.at) / (to.at - from.at)
	mix := func(a, b float64) uint8 { return uint8(math.Round(a + (b-a)*part)) }
	return color.RGBA{mix(from.r, to.r), mix(from.g, to.g), mix(from.b, to.b), 0xff}
}
