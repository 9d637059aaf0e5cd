package plot_test

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/lab/plot"
)

func sheet() plot.Sheet {
	curve := func(colour int, ys ...float64) plot.Curve {
		c := plot.Curve{Colour: colour, Dotted: colour > 0}
		for i, y := range ys {
			c.Points = append(c.Points, plot.XY{X: float64(25 * (i + 1)), Y: y})
		}
		return c
	}
	marks := []plot.Mark{{Label: "agreed", At: 0.1}, {Vertical: true, At: 50}, {Vertical: true, At: 1e6}}
	return plot.Sheet{
		Title: "A sheet", Notes: []string{"a note", "another"}, Across: "offered, per second",
		Keys: []plot.Key{{"first", 0}, {"second", 1}},
		Plots: []plot.Plot{
			{Title: "Shares", Unit: plot.Shares, Curves: []plot.Curve{curve(0, 1, 0.5, 0.2)}},
			{Title: "Latency", Unit: plot.Seconds, Marks: marks, Keys: []plot.Style{{"P50", true}}, Curves: []plot.Curve{curve(0, 0.001, math.NaN(), 2), curve(1, 1, 1, 1)}},
			{Title: "Rates", Unit: plot.Rates, Curves: []plot.Curve{curve(0, 0, 100, 400)}},
		},
	}
}

// All texts of a sheet are drawn, for any number of plots.
func TestSheet(t *testing.T) {
	s := sheet()
	for n := len(s.Plots); n > 0; n-- {
		s.Plots = s.Plots[:n]
		var svg, image bytes.Buffer
		if err := plot.DrawSheet(&svg, s, "svg"); err != nil {
			t.Fatal(err)
		}
		want := []string{"A sheet", "another", "offered, per second", "first", "second", "Shares", "100 %", "50", "75"}
		if n > 1 {
			want = append(want, "Latency", "P50", "agreed", "100 ms", "1 s")
		}
		for _, text := range want {
			if !strings.Contains(svg.String(), ">"+text+"<") {
				t.Errorf("%d plots: no %q", n, text)
			}
		}
		if err := plot.DrawSheet(&image, s, "png"); err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(&image); err != nil {
			t.Error(err)
		}
	}
}

func TestSheetErrors(t *testing.T) {
	if err := plot.DrawSheet(&bytes.Buffer{}, plot.Sheet{}, "svg"); err == nil {
		t.Error("a sheet without plots is drawn")
	}
	if err := plot.DrawSheet(&bytes.Buffer{}, sheet(), "gif"); err == nil || !strings.Contains(err.Error(), "gif") {
		t.Errorf("%v: want an error that names the format", err)
	}
	empty := plot.Sheet{Plots: []plot.Plot{{Title: "nothing"}}}
	if err := plot.DrawSheet(&bytes.Buffer{}, empty, "svg"); err != nil {
		t.Errorf("%v: want empty axes", err)
	}
}
