package plot_test

import (
	"bytes"
	"image/png"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

func TestHeat(t *testing.T) {
	h := plot.Heat{
		Title: "A title", Notes: []string{"a note"}, Columns: []string{"one", "two", "three *"}, Beside: 1,
		Groups: [][]plot.HeatRow{{{Label: "first", Values: []float64{0, 0.5, 1}}, {Label: "second", Values: []float64{1.2, 0.85, 0.3}}},
			{{Label: "mean", Values: []float64{0.604, 0.6, 0.7}}}},
	}
	var svg, again, picture bytes.Buffer
	for _, err := range []error{plot.DrawHeat(&svg, h, "svg"), plot.DrawHeat(&again, h, "svg"), plot.DrawHeat(&picture, h, "png")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("the same table gives other bytes")
	}
	for _, want := range []string{"A title", "a note", ">three *<", ">second<", ">0.85<", ">mean<"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if img, err := png.Decode(&picture); err != nil || img.Bounds().Dx() < 500 {
		t.Errorf("%v: want a picture", err)
	}
	if err := plot.DrawHeat(&bytes.Buffer{}, h, "gif"); err == nil {
		t.Error("a format that is not known is an error")
	}
}
