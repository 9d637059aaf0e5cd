// Package picture draws the results of simulations.
package picture

import (
	"fmt"
	"io"

	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/plot"
)

// A drawing is a Figure, with the panels of its plot.
type drawing struct{ *figure.Figure }

// Draw writes a plot of the results in one of plot.Formats.
func Draw(w io.Writer, of *figure.Figure, format string) error {
	f := drawing{of}
	seed, _ := f.First()
	sheet := plot.Sheet{
		Title: f.Title, Notes: []string{fmt.Sprintf("weirlab sim %s · seed %d", f.File, seed)},
		Across: "simulated time", Time: true, Wide: true,
	}
	if f.Fleets != nil {
		f.fleetSheet(&sheet)
		return plot.DrawSheet(w, sheet, format)
	}
	var runs []run
	for i, sc := range f.Scenarios {
		runs = append(runs, run{sc, f.Runs[i]})
		sheet.Keys = append(sheet.Keys, plot.Key{Label: sc.Name, Style: plot.Stroke(plot.Colour(i), 3, nil)})
	}
	if len(runs) > 1 {
		sheet.Panels = comparison(runs)
		return plot.DrawSheet(w, sheet, format)
	}
	sheet.Keys, sheet.Panels = nil, runs[0].panels()
	if name := runs[0].Name; name != "" {
		sheet.Title += ": " + name
	}
	return plot.DrawSheet(w, sheet, format)
}
