package plot_test

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

func sheet() plot.Sheet {
	panel := func(title string, unit plot.Unit, lines ...[]float64) plot.Panel {
		p := plot.Panel{Title: title, Unit: unit}
		for i, ys := range lines {
			var points plotter.XYs
			for k, y := range ys {
				points = append(points, plotter.XY{X: float64(25 * (k + 1)), Y: y})
			}
			p.Add("", plot.Stroke(plot.Colour(i), 2, nil), points)
		}
		return p
	}
	latency := panel("Latency", plot.Seconds, []float64{0.001, math.NaN(), 2}, []float64{1, 1, 1})
	latency.Keys = []plot.Key{{Label: "P50", Style: plot.Plain(1, plot.Dotted)}}
	latency.Marks = []plot.Mark{{Label: "agreed", At: 0.1}, {Vertical: true, At: 50}, {Vertical: true, At: 1e6}}
	return plot.Sheet{
		Title: "A sheet", Notes: []string{"a note", "another"}, Across: "offered, per second",
		Keys: []plot.Key{{Label: "first", Style: plot.Stroke(plot.Colour(0), 3, nil)}, {Label: "second", Style: plot.Stroke(plot.Colour(1), 3, nil)}},
		Panels: []plot.Panel{
			panel("Shares", plot.Shares, []float64{1, 0.5, 0.2}), latency, panel("Rates", plot.Rates, []float64{0, 100, 400}),
		},
	}
}

// All texts of a sheet are drawn, for any number of panels.
func TestSheet(t *testing.T) {
	s := sheet()
	for n := len(s.Panels); n > 0; n-- {
		s.Panels = s.Panels[:n]
		var svg, image bytes.Buffer
		testrig.Must(t, plot.DrawSheet(&svg, s, "svg"))
		want := []string{"A sheet", "another", "offered, per second", "first", "second", "Shares", "100 %", "50", "75"}
		if n > 1 {
			want = append(want, "Latency", "P50", "agreed", "100 ms", "1 s")
		}
		for _, text := range want {
			if !strings.Contains(svg.String(), ">"+text+"<") {
				t.Errorf("%d panels: no %q", n, text)
			}
		}
		testrig.Must(t, plot.DrawSheet(&image, s, "png"))
		if _, err := png.Decode(&image); err != nil {
			t.Error(err)
		}
	}
}

func TestSheetErrors(t *testing.T) {
	if err := plot.DrawSheet(&bytes.Buffer{}, plot.Sheet{}, "svg"); err == nil {
		t.Error("a sheet without panels is drawn")
	}
	if err := plot.DrawSheet(&bytes.Buffer{}, sheet(), "gif"); err == nil || !strings.Contains(err.Error(), "gif") {
		t.Errorf("%v: want an error that names the format", err)
	}
	empty := plot.Sheet{Panels: []plot.Panel{{Title: "nothing"}}}
	if err := plot.DrawSheet(&bytes.Buffer{}, empty, "svg"); err != nil {
		t.Errorf("%v: want empty axes", err)
	}
}

// An axis of percentiles gives each further nine the same width.
func TestNines(t *testing.T) {
	var points plotter.XYs
	for _, percentile := range []float64{0, 50, 90, 99, 99.9, 99.99} {
		points = append(points, plotter.XY{X: plot.Nines(percentile), Y: 1})
	}
	for i, want := range []float64{0, 0.30103, 1, 2, 3, 4} {
		if got := points[i].X; math.Abs(got-want) > 1e-5 {
			t.Errorf("%v: want %v", got, want)
		}
	}
	p := plot.Panel{Title: "Latency", Unit: plot.Seconds}
	p.Add("", plot.Plain(1, nil), points)
	var svg bytes.Buffer
	testrig.Must(t, plot.DrawSheet(&svg, plot.Sheet{Title: "A sheet", Nines: true, Wide: true, Panels: []plot.Panel{p}}, "svg"))
	for _, text := range []string{"0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"} {
		if !strings.Contains(svg.String(), ">"+text+"<") {
			t.Errorf("no %q", text)
		}
	}
}
