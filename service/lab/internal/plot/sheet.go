// Package plot draws curves over one horizontal axis, and heat maps. The same data give
// the same bytes.
package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Sheet is panels of curves over the same horizontal axis.
type Sheet struct {
	Title  string
	Notes  []string // below the title, smaller
	Across string   // title of the horizontal axis
	Time   bool     // the horizontal axis is a time from 0, in seconds
	Nines  bool     // the horizontal axis is a percentile p, as Nines(p)
	Log    bool     // the horizontal axis is logarithmic, and all its values are positive
	Keys   []Key    // the meanings of the colours
	Wide   bool     // one panel in a row, instead of two
	Panels []Panel  // at least one
}

// A Key is the meaning of a style.
type Key struct {
	Label string
	Style Style
}

// A Style is a colour, a width in points, and dashes.
type Style = draw.LineStyle

// A Panel is lines and marks below a strip with its title and keys.
type Panel struct {
	Title string
	Unit  Unit
	Keys  []Key
	Lines []Line
	Marks []Mark
	Bands []Band
	Areas []Area
}

// A Unit is the unit of the values of a Panel.
type Unit uint8

const (
	Rates   Unit = iota // from 0
	Counts              // on a logarithmic axis, if the ranges of the lines differ much
	Seconds             // on a logarithmic axis, if their range is wide
	Shares              // from 0 to 1, in per cent
	Parts               // from 0, in per cent
)

// A Line joins points. A Y that is not a number is a gap.
type Line struct {
	Style  Style
	Points plotter.XYs
}

// An Area is shaded between two curves over the same X.
type Area struct {
	Color     color.Color
	Low, High plotter.XYs
}

// A Mark is a dashed line across the whole Panel, with a key if it has a label.
type Mark struct {
	Label    string
	Vertical bool
	At       float64
}

// A Band is a shaded stretch of the horizontal axis, with a label above it in the Panel.
type Band struct {
	Label    string
	From, To float64
}

// Add adds a line, unless it has only gaps, and its key, if label is not empty.
func (p *Panel) Add(label string, style Style, points plotter.XYs) {
	for _, pt := range points {
		if math.IsNaN(pt.Y) {
			continue
		}
		if label != "" {
			p.Keys = append(p.Keys, Key{label, style})
		}
		p.Lines = append(p.Lines, Line{style, points})
		return
	}
}

const (
	footHeight  = 0.32 * vg.Inch
	stripHeight = 0.26 * vg.Inch // above a panel
)

// DrawSheet writes the sheet in one of Formats.
func DrawSheet(w io.Writer, s Sheet, format string) error {
	if len(s.Panels) == 0 {
		return fmt.Errorf("plot: a sheet without panels")
	}
	width, height, columns := 11*vg.Inch, 3.1*vg.Inch, min(len(s.Panels), 2)
	if s.Wide {
		width, height, columns = 10*vg.Inch, 2.05*vg.Inch, 1
	}
	legend := wrap(s.Keys, width-40)
	head := headHeight(s.Notes) + vg.Length(len(legend))*legendHeight
	rows := (len(s.Panels) + columns - 1) / columns
	return paint(w, width, head+vg.Length(rows)*height+footHeight, format, func(c draw.Canvas) {
		y := heading(c, s.Title, s.Notes) - 3
		for _, row := range legend {
			y -= legendHeight
			keys(c, row, vg.Point{X: 12, Y: y})
		}
		s.draw(c, draw.Crop(c, 8, -18, footHeight, -head), rows, columns)
	})
}

// Dots adds points as dots, and their key.
func (p *Panel) Dots(label string, c color.Color, points plotter.XYs) {
	var apart plotter.XYs
	for _, pt := range points {
		apart = append(apart, pt, plotter.XY{X: pt.X, Y: math.NaN()})
	}
	p.Add(label, Stroke(c, 4, []vg.Length{4, 4}), apart)
}

// DrawPanel writes one panel of the sheet with the keys of both, and without titles and notes, in one of Formats, for a page that may be narrow
// and has them in its text.
func DrawPanel(w io.Writer, s Sheet, panel int, format string) error {
	const width, height = 4.4 * vg.Inch, 2.3 * vg.Inch
	p := s.Panels[panel]
	legend := wrap(slices.Concat(s.Keys, p.keys()), width-24)
	p.Title, p.Keys, p.Marks = "", nil, slices.Clone(p.Marks)
	for i := range p.Marks {
		p.Marks[i].Label = ""
	}
	s.Panels = []Panel{p}
	head := vg.Length(len(legend)) * legendHeight
	return paint(w, width, head+height+footHeight, format, func(c draw.Canvas) {
		for i, row := range legend {
			keys(c, row, vg.Point{X: 12, Y: c.Max.Y - vg.Length(i+1)*legendHeight})
		}
		s.draw(c, draw.Crop(c, 8, -18, footHeight, -head), 1, 1)
	})
}

// draw draws the panels on the body of c.
func (s *Sheet) draw(c, body draw.Canvas, rows, columns int) {
	plots := make([][]*plot.Plot, rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, columns)
	}
	least, most := s.across()
	for i := range s.Panels {
		plots[i/columns][i%columns] = s.Panels[i].plot()
		s.axis(&plots[i/columns][i%columns].X, least, most, i >= len(s.Panels)-columns)
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 14, PadY: stripHeight, PadTop: stripHeight}
	areas := plot.Align(plots, tiles, body)
	for i := range s.Panels {
		p, area := plots[i/columns][i%columns], areas[i/columns][i%columns]
		p.Draw(area)
		inner := p.DataCanvas(area)
		s.Panels[i].strip(c, vg.Point{X: inner.Min.X, Y: inner.Max.Y + 7})
		if i >= len(s.Panels)-columns {
			centre(c, s.Across, (inner.Min.X+inner.Max.X)/2, c.Min.Y+9, 10, faint, false)
		}
	}
}

// across returns the ends of the horizontal axis.
func (s *Sheet) across() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, p := range s.Panels {
		for _, l := range p.Lines {
			for _, at := range l.Points {
				least, most = min(least, at.X), max(most, at.X)
			}
		}
	}
	if s.Time || s.Nines || !(least < most) {
		least = 0
	}
	if !(least < most) {
		most = 1
	}
	return least, most
}

// axis sets a horizontal axis. Only the last row has labels.
func (s *Sheet) axis(x *plot.Axis, least, most float64, last bool) {
	x.Min, x.Max = least, most
	ticks := linear(nice((most-least)/10), least, most, decimal)
	switch {
	case s.Log:
		x.Scale = logScale{}
		ticks = logarithmic(least, most, decimal)
	case s.Time:
		ticks = moments(most)
	case s.Nines:
		ticks = nines(most)
	}
	if !last {
		for i := range ticks {
			ticks[i].Label = " " // with a grid line
		}
	}
	x.Tick.Marker = ticks
}

// plot returns the plot of a panel, without the horizontal axis.
func (p *Panel) plot() *plot.Plot {
	g := plot.New()
	p.scale(&g.Y)
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		a.Tick.Label.Font.Variant, a.Tick.Label.Font.Size = "Sans", 9
		a.Tick.Label.Color, a.Color, a.Tick.LineStyle.Color = faint, faint, faint
		a.LineStyle.Width, a.Tick.LineStyle.Width = 0.5, 0.5
		a.Tick.Length, a.Padding = 3, 0
	}
	lines := plotter.NewGrid()
	lines.Horizontal = Stroke(grid, 0.6, nil)
	lines.Vertical = lines.Horizontal
	g.Add(lines, p)
	return g
}

// Plot draws the lines and the marks on the canvas of the data.
func (p *Panel) Plot(c draw.Canvas, g *plot.Plot) {
	x, y := g.Transforms(&c)
	for i, b := range p.Bands {
		b.draw(c, x, i)
	}
	for _, a := range p.Areas {
		a.draw(c, x, y)
	}
	for _, l := range p.Lines {
		var stretch []vg.Point
		for i, pt := range l.Points {
			gap := math.IsNaN(pt.Y)
			if !gap {
				stretch = append(stretch, vg.Point{X: x(pt.X), Y: y(pt.Y)})
			}
			if gap || i == len(l.Points)-1 {
				l.stretch(c, stretch)
				stretch = nil
			}
		}
	}
	for _, m := range p.Marks {
		switch at := x(m.At); {
		case m.Vertical && c.ContainsX(at):
			c.StrokeLine2(MarkStyle, at, c.Min.Y, at, c.Max.Y)
		case !m.Vertical && c.ContainsY(y(m.At)):
			c.StrokeLine2(MarkStyle, c.Min.X, y(m.At), c.Max.X, y(m.At))
		}
	}
}

// draw shades the band. The labels of neighbours have different heights.
func (b Band) draw(c draw.Canvas, x func(float64) vg.Length, i int) {
	left, right := max(x(b.From), c.Min.X), min(max(x(b.To), x(b.From)+1.5), c.Max.X)
	if left > right {
		return
	}
	c.FillPolygon(band, []vg.Point{{X: left, Y: c.Min.Y}, {X: right, Y: c.Min.Y}, {X: right, Y: c.Max.Y}, {X: left, Y: c.Max.Y}})
	if b.Label != "" {
		write(c, b.Label, vg.Point{X: left + 2, Y: c.Max.Y - 9 - 10*vg.Length(i%2)}, 8, faint, false)
	}
}

// draw shades the area.
func (a Area) draw(c draw.Canvas, x, y func(float64) vg.Length) {
	var around []vg.Point
	for _, pt := range a.Low {
		around = append(around, vg.Point{X: x(pt.X), Y: y(pt.Y)})
	}
	for _, pt := range slices.Backward(a.High) {
		around = append(around, vg.Point{X: x(pt.X), Y: y(pt.Y)})
	}
	if around = c.ClipPolygonXY(around); len(around) > 0 {
		c.FillPolygon(a.Color, around)
	}
}

// stretch draws the part of a line between two gaps.
func (l Line) stretch(c draw.Canvas, points []vg.Point) {
	c.StrokeLines(l.Style, c.ClipLinesXY(points)...)
	if len(points) == 1 {
		dot := draw.GlyphStyle{Color: l.Style.Color, Radius: max(l.Style.Width*0.6, 0.8), Shape: draw.CircleGlyph{}}
		c.DrawGlyph(dot, points[0])
	}
}

// strip writes the title of a panel and its keys, from left to right.
func (p *Panel) strip(c draw.Canvas, at vg.Point) {
	at.X += write(c, p.Title, at, 11, Ink, true) + 16
	keys(c, p.keys(), at)
}

// keys returns the keys of the lines and of the marks.
func (p *Panel) keys() []Key {
	all := slices.Clone(p.Keys)
	for _, m := range p.Marks {
		if m.Label != "" {
			all = append(all, Key{m.Label, MarkStyle})
		}
	}
	return all
}
