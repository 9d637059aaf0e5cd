package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// A bar has the cost of a request under a load, in µs.
type bar struct {
	load, server string
	micros       float64
}

// least is the low end of the axis of the picture, in µs.
const least = 0.1

// colours are for the floor, the transports and GoCC. People with any kind of sight can tell them
// apart (Okabe and Ito 2008).
var colours = []color.Color{
	color.RGBA{0xa8, 0xa8, 0xa8, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
}

const (
	theFloor = "net/http or grpc-go alone"
	goCC     = "GoCC"
)

// paint writes a picture of the costs of loads, a group of bars for each load.
func (s *setting) paint(bars []bar) error {
	p := plot.New()
	p.Y.Label.Text = " " // room for the names of loads
	p.Title.Text = "CPU time of the server for a request, µs (logarithmic: a tick is tenfold)"
	var loads []string
	for _, b := range bars {
		if !slices.Contains(loads, b.load) {
			loads = append(loads, b.load)
		}
	}
	slices.Reverse(loads) // from below
	names := slices.Concat([]string{theFloor}, s.transports, []string{goCC})
	width := vg.Points(11)
	for i, name := range names {
		values := make(plotter.Values, len(loads))
		var labels plotter.XYLabels
		offset := width * vg.Length(float64(len(names)-1)/2-float64(i))
		for _, b := range bars {
			if b.server != name {
				continue
			}
			at := slices.Index(loads, b.load)
			values[at] = math.Log10(max(b.micros, least*1.05) / least)
			labels.XYs = append(labels.XYs, plotter.XY{X: values[at], Y: float64(at)})
			labels.Labels = append(labels.Labels, strconv.FormatFloat(b.micros, 'g', 3, 64))
		}
		if len(labels.XYs) == 0 {
			continue
		}
		chart, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		chart.Horizontal, chart.Offset, chart.Color = true, offset, colours[i%len(colours)]
		chart.LineStyle.Width = 0
		texts, err := plotter.NewLabels(labels)
		if err != nil {
			return err
		}
		texts.Offset = vg.Point{X: vg.Points(3), Y: offset}
		for j := range texts.TextStyle {
			texts.TextStyle[j].YAlign = text.YCenter
			texts.TextStyle[j].Font.Size = vg.Points(8)
		}
		p.Add(chart, texts)
		if slices.Contains(s.transports, name) {
			name = "weir serve, " + name
		}
		p.Legend.Add(name, chart)
	}
	p.Legend.Top = true
	p.Legend.Padding, p.Legend.XOffs, p.Legend.TextStyle.Font.Size = vg.Points(4), -vg.Points(4), vg.Points(10)
	p.Title.Padding = vg.Points(8)
	p.NominalY(loads...)
	var ticks plot.ConstantTicks
	for v := least; v <= 100; v *= 10 {
		ticks = append(ticks, plot.Tick{Value: math.Log10(v / least), Label: fmt.Sprint(v)})
	}
	p.X.Tick.Marker, p.X.Min, p.X.Max = ticks, 0, math.Log10(100/least)+0.9
	return p.Save(9*vg.Inch, vg.Points(60)*vg.Length(len(loads)), s.picture)
}
