// Package plot draws the results of simulations as stacked panels over one time axis.
// The same results give the same bytes.
package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/weir-go/weir/service/internal/lab/sim"
)

// A Run is a scenario and its result.
type Run struct {
	Scenario sim.Scenario
	Result   sim.Result
}

// A Figure shows one run in detail, or several side by side.
type Figure struct {
	Title string
	Note  string // below the title, smaller
	Runs  []Run  // at least one; their scenarios' names tell them apart
}

// Formats are the kinds of file that Draw writes.
var Formats = []string{"svg", "png"}

// Sizes, in points unless they say otherwise.
const (
	width       = 10 * vg.Inch
	panelHeight = 2.05 * vg.Inch
	headHeight  = 0.66 * vg.Inch

	legendHeight = 0.24 * vg.Inch // of a row
	footHeight   = 0.32 * vg.Inch
	stripHeight  = 0.26 * vg.Inch // above a panel: its title and keys
	dpi          = 110
)

// Draw writes the figure in one of Formats.
func Draw(w io.Writer, f Figure, format string) error {
	panels := f.panels()
	head := headHeight + vg.Length(len(f.legend()))*legendHeight
	height := head + footHeight + vg.Length(len(panels))*panelHeight
	return paint(w, width, height, format, func(c draw.Canvas) { f.draw(c, head, panels) })
}

// paint writes a white picture that draw has drawn on.
func paint(w io.Writer, width, height vg.Length, format string, on func(draw.Canvas)) error {
	drawn := func(c vg.CanvasSizer) {
		whole := draw.New(c)
		whole.SetColor(color.White)
		whole.Fill(whole.Rectangle.Path())
		on(whole)
	}
	switch format {
	case "svg":
		c := vgsvg.New(width, height)
		drawn(c)
		_, err := c.WriteTo(w)
		return err
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
		drawn(c)
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
		return err
	default:
		return fmt.Errorf("plot: format = %q: must be svg or png", format)
	}
}

func (f Figure) panels() []panel {
	if len(f.Runs) == 1 {
		return f.Runs[0].panels()
	}
	return f.comparison()
}

// A panel is a plot below a strip with its title and a key for each line.
type panel struct {
	title string
	keys  []key
	lines []line
	unit  unit
	rates bool // compares rates, which need a linear axis
}

type key struct {
	label string
	style draw.LineStyle
}

// A line is drawn over each stretch of its points that has no gap.
type line struct {
	style  draw.LineStyle
	points []point
}

type point struct{ x, y float64 } // seconds; a y that is NaN is a gap

// unit is the unit of the values of a panel.
type unit uint8

const (
	counts    unit = iota
	durations      // in seconds
	shares         // from 0 to 1
)

// add adds a line and, if it has a label, its key.
func (p *panel) add(label string, style draw.LineStyle, points []point) {
	drawn := false
	for _, pt := range points {
		drawn = drawn || !math.IsNaN(pt.y)
	}
	if !drawn {
		return
	}
	if label != "" {
		p.keys = append(p.keys, key{label, style})
	}
	p.lines = append(p.lines, line{style, points})
}

func (f Figure) draw(c draw.Canvas, head vg.Length, panels []panel) {
	end := f.Runs[0].Scenario.Duration.Seconds()
	body := draw.Crop(c, 8, -18, footHeight, -head)
	write(c, f.Title, vg.Point{X: 12, Y: c.Max.Y - 22}, 15, ink, true)
	write(c, f.Note, vg.Point{X: 12, Y: c.Max.Y - 38}, 10, faint, false)
	for i, row := range f.legend() {
		keys(c, row, vg.Point{X: 12, Y: c.Max.Y - 58 - vg.Length(i)*legendHeight})
	}

	column := make([][]*plot.Plot, len(panels))
	for i := range panels {
		column[i] = []*plot.Plot{panels[i].plot(end, i == len(panels)-1)}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: stripHeight, PadTop: stripHeight}
	areas := plot.Align(column, tiles, body)
	for i := range panels {
		area := areas[i][0]
		column[i][0].Draw(area)
		inner := column[i][0].DataCanvas(area)
		panels[i].strip(c, vg.Point{X: inner.Min.X, Y: inner.Max.Y + 7})
		if i == len(panels)-1 {
			x := inner.Min.X + (inner.Max.X-inner.Min.X)/2
			write(c, "simulated time", vg.Point{X: x - 32, Y: c.Min.Y + 9}, 10, faint, false)
		}
	}
}

// strip writes the title of a panel and its keys, from left to right.
func (p *panel) strip(c draw.Canvas, at vg.Point) {
	at.X += write(c, p.title, at, 11, ink, true) + 16
	keys(c, p.keys, at)
}

func keys(c draw.Canvas, all []key, at vg.Point) {
	for _, k := range all {
		y := at.Y + 3.5
		c.StrokeLine2(k.style, at.X, y, at.X+20, y)
		at.X += 24
		at.X += write(c, k.label, at, 10, ink, false) + 14
	}
}

// legend writes the keys of the runs, in as many rows as they need.
func (f Figure) legend() (rows [][]key) {
	if len(f.Runs) == 1 {
		return nil
	}
	room := vg.Length(0)
	for i, r := range f.Runs {
		k := key{r.Scenario.Name, stroke(palette[i%len(palette)], 3, nil)}
		need := 38 + textStyle(10, ink, false).Width(k.label)
		if room -= need; room < 0 {
			rows = append(rows, nil)
			room = width - 40 - need
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], k)
	}
	return rows
}

// write writes a line of text and returns its width.
func write(c draw.Canvas, s string, at vg.Point, size vg.Length, shade color.Color, bold bool) vg.Length {
	style := textStyle(size, shade, bold)
	c.FillText(style, at, s)
	return style.Width(s)
}

func textStyle(size vg.Length, shade color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: shade, Font: f, Handler: plot.DefaultTextHandler}
}
