package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Sheet is plots of the same things, side by side, over the same horizontal
// axis.
type Sheet struct {
	Title  string
	Notes  []string // below the title, smaller
	Across string   // title of the horizontal axis, with its unit
	Keys   []Key    // the meanings of the colours
	Plots  []Plot   // two in a row
}

// A Key is the meaning of a colour.
type Key struct {
	Label  string
	Colour int // of the palette, from 0
}

// A Plot is some curves.
type Plot struct {
	Title  string
	Unit   Unit
	Keys   []Style // the meanings of the styles of its curves
	Curves []Curve
	Marks  []Mark
}

// A Unit is the unit of the values of a Plot.
type Unit uint8

const (
	Rates   Unit = iota // from 0
	Seconds             // on a logarithmic axis, if their range is wide
	Shares              // from 0 to 1, in per cent
)

// A Style distinguishes curves of the same colour.
type Style struct {
	Label  string
	Dotted bool
}

// A Curve joins points. A Y that is not a number is a gap.
type Curve struct {
	Colour int
	Dotted bool
	Points []XY
}

// XY is a point: X on the horizontal axis, Y in the Plot's unit.
type XY struct{ X, Y float64 }

// A Mark is a dashed line across the whole Plot.
type Mark struct {
	Label    string
	Vertical bool
	At       float64
}

// Sizes of a Sheet, in points.
const (
	sheetWidth  = 11 * vg.Inch
	sheetHeight = 3.1 * vg.Inch // of a row
	sheetNote   = 15
)

// DrawSheet writes the sheet in one of Formats.
func DrawSheet(w io.Writer, s Sheet, format string) error {
	if len(s.Plots) == 0 {
		return fmt.Errorf("plot: a sheet without plots")
	}
	head := 0.44*vg.Inch + vg.Length(len(s.Notes))*sheetNote + legendHeight
	rows := (len(s.Plots) + 1) / 2
	return paint(w, sheetWidth, head+vg.Length(rows)*sheetHeight+footHeight, format,
		func(c draw.Canvas) { s.draw(c, head, rows) })
}

func (s Sheet) draw(c draw.Canvas, head vg.Length, rows int) {
	y := c.Max.Y - 24
	write(c, s.Title, vg.Point{X: 12, Y: y}, 15, ink, true)
	for _, note := range s.Notes {
		y -= sheetNote
		write(c, note, vg.Point{X: 12, Y: y}, 10, faint, false)
	}
	var legend []key
	for _, k := range s.Keys {
		legend = append(legend, key{k.Label, stroke(palette[k.Colour%len(palette)], 3, nil)})
	}
	keys(c, legend, vg.Point{X: 12, Y: y - 20})

	columns := min(len(s.Plots), 2)
	plots, panels := make([][]*plot.Plot, rows), make([]panel, len(s.Plots))
	least, most := s.across()
	for i := range plots {
		plots[i] = make([]*plot.Plot, columns)
	}
	for i, p := range s.Plots {
		panels[i] = p.panel()
		plots[i/columns][i%columns] = across(&panels[i], least, most, i >= len(s.Plots)-columns)
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 14, PadY: stripHeight + 8, PadTop: stripHeight}
	areas := plot.Align(plots, tiles, draw.Crop(c, 8, -18, footHeight, -head))
	for i := range panels {
		area := areas[i/columns][i%columns]
		plots[i/columns][i%columns].Draw(area)
		inner := plots[i/columns][i%columns].DataCanvas(area)
		s.Plots[i].mark(inner, plots[i/columns][i%columns])
		panels[i].strip(c, vg.Point{X: inner.Min.X, Y: inner.Max.Y + 7})
		if i >= len(s.Plots)-columns {
			centre(c, s.Across, (inner.Min.X+inner.Max.X)/2, c.Min.Y+9, 10, faint, false)
		}
	}
}

// across returns the ends of the horizontal axis.
func (s Sheet) across() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, p := range s.Plots {
		for _, curve := range p.Curves {
			for _, at := range curve.Points {
				least, most = min(least, at.X), max(most, at.X)
			}
		}
	}
	if !(least < most) {
		return 0, max(most, 1)
	}
	return least, most
}

// across returns a panel's plot from least to most.
func across(p *panel, least, most float64, last bool) *plot.Plot {
	g := p.plot(most, last)
	g.X.Min, g.X.Max = least, most
	g.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick {
		return linear(lo, hi, 10, func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) })
	})
	return g
}

// panel prepares a Plot: its curves, and the keys of its marks and styles.
func (p Plot) panel() panel {
	out := panel{title: p.Title, rates: true, unit: [...]unit{Rates: counts, Seconds: durations, Shares: shares}[p.Unit]}
	for _, style := range p.Keys {
		out.keys = append(out.keys, key{style.Label, shape(faint, style.Dotted)})
	}
	for _, mark := range p.Marks {
		if mark.Label != "" {
			out.keys = append(out.keys, key{mark.Label, stroke(ink, 1, dashed)})
		}
	}
	for _, curve := range p.Curves {
		points := make([]point, len(curve.Points))
		for i, at := range curve.Points {
			points[i] = point{at.X, at.Y}
		}
		out.add("", shape(palette[curve.Colour%len(palette)], curve.Dotted), points)
	}
	return out
}

// mark draws the marks that are within the axes of g, on the canvas of its data.
func (p Plot) mark(c draw.Canvas, g *plot.Plot) {
	for _, mark := range p.Marks {
		axis, at := &g.Y, mark.At
		if mark.Vertical {
			axis = &g.X
		}
		if at < axis.Min || at > axis.Max {
			continue
		}
		if mark.Vertical {
			x := c.X(axis.Norm(at))
			c.StrokeLine2(stroke(ink, 1, dashed), x, c.Min.Y, x, c.Max.Y)
		} else {
			y := c.Y(axis.Norm(at))
			c.StrokeLine2(stroke(ink, 1, dashed), c.Min.X, y, c.Max.X, y)
		}
	}
}

func shape(c color.Color, dotty bool) draw.LineStyle {
	if dotty {
		return stroke(c, 1.4, dotted)
	}
	return stroke(c, 2, nil)
}
