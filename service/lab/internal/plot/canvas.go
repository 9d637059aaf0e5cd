package plot

import (
	"fmt"
	"image/color"
	"io"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Formats are the kinds of file that are written.
var Formats = []string{"svg", "png"}

// Colours that people with any kind of sight can tell apart (Okabe and Ito
// 2008), and greys.
var (
	Ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	Grey   = color.RGBA{0xa8, 0xa8, 0xa8, 0xff}
	Blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Red    = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Pink   = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	Orange = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	Sky    = color.RGBA{0x56, 0xb4, 0xe9, 0xff}

	faint = color.RGBA{0x77, 0x77, 0x77, 0xff}
	grid  = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	band  = color.NRGBA{0xe6, 0x9f, 0x00, 0x2c}

	// Shade is the colour of an Area of a Blue curve.
	Shade = color.NRGBA{0x00, 0x72, 0xb2, 0x3c}

	palette = []color.Color{
		Red, Blue, Green, Pink, Orange, Sky, color.RGBA{0x6a, 0x3d, 0x9a, 0xff}, color.RGBA{0x8c, 0x56, 0x4b, 0xff},
	}
)

// Colours is the number of colours of Colour. It repeats them after that.
var Colours = len(palette)

// Colour returns the colour of the i-th of several things, from 0.
func Colour(i int) color.Color { return palette[i%len(palette)] }

// Dashes of a Style.
var (
	Dashed = []vg.Length{5, 3}
	Dotted = []vg.Length{1.5, 2.5}
)

// Points returns a width.
func Points(width float64) vg.Length { return vg.Length(width) }

// MarkStyle is the style of marks.
var MarkStyle = Stroke(Ink, 1, Dashed)

// Stroke returns a Style.
func Stroke(c color.Color, width vg.Length, dashes []vg.Length) Style {
	return Style{Color: c, Width: width, Dashes: dashes}
}

// Plain returns the style of a meaning that is independent of colours.
func Plain(width vg.Length, dashes []vg.Length) Style { return Stroke(faint, width, dashes) }

const (
	dpi          = 110
	noteHeight   = 15
	legendHeight = 0.24 * vg.Inch // of a row
)

// paint writes a white picture that on has drawn on.
func paint(w io.Writer, width, height vg.Length, format string, on func(draw.Canvas)) error {
	var c vg.CanvasWriterTo
	switch format {
	case "svg":
		c = vgsvg.New(width, height)
	case "png":
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	default:
		return fmt.Errorf("plot: format = %q: must be svg or png", format)
	}
	whole := draw.New(c)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	on(whole)
	_, err := c.WriteTo(w)
	return err
}

// headHeight returns the height of a title and its notes.
func headHeight(notes []string) vg.Length { return 34 + noteHeight*vg.Length(len(notes)) }

// heading writes a title and its notes, and returns the height of the last line.
func heading(c draw.Canvas, title string, notes []string) vg.Length {
	y := c.Max.Y - 24
	write(c, title, vg.Point{X: 12, Y: y}, 15, Ink, true)
	for _, note := range notes {
		y -= noteHeight
		write(c, note, vg.Point{X: 12, Y: y}, 10, faint, false)
	}
	return y
}

// keys writes keys from left to right.
func keys(c draw.Canvas, all []Key, at vg.Point) {
	for _, k := range all {
		c.StrokeLine2(k.Style, at.X, at.Y+3.5, at.X+20, at.Y+3.5)
		at.X += 24
		at.X += write(c, k.Label, at, 10, Ink, false) + 14
	}
}

// wrap splits keys into rows that fit a width.
func wrap(all []Key, width vg.Length) (rows [][]Key) {
	room := vg.Length(0)
	for _, k := range all {
		need := 38 + textStyle(10, Ink, false).Width(k.Label)
		if room -= need; room < 0 {
			rows = append(rows, nil)
			room = width - need
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

// centre writes a line of text around x.
func centre(c draw.Canvas, s string, x, y, size vg.Length, shade color.Color, bold bool) {
	style := textStyle(size, shade, bold)
	style.XAlign = draw.XCenter
	c.FillText(style, vg.Point{X: x, Y: y}, s)
}

func textStyle(size vg.Length, shade color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: shade, Font: f, Handler: plot.DefaultTextHandler}
}
