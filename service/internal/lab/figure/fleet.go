package figure

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/internal/lab/fleet"
	"github.com/weir-go/weir/service/internal/lab/plot"
)

// fleet adds the panels of the runs of a fleet.
func (f *Figure) fleet(sheet *plot.Sheet) {
	first := f.FleetRuns[0]
	sheet.Notes[0] += fmt.Sprintf(" · %s", fleetNote(f.FleetRuns))
	bands := f.bands()
	if len(f.FleetRuns) == 1 {
		if name := first.Name; name != "" {
			sheet.Title += ": " + name
		}
	} else {
		for i, r := range f.FleetRuns {
			sheet.Keys = append(sheet.Keys, plot.Key{Label: r.Name, Style: plot.Stroke(plot.Colour(i), 3, nil)})
		}
	}
	sheet.Panels = []plot.Panel{f.allowed(), f.overshoot()}
	if len(first.Series) > 0 && len(first.Series[0].Watch) > 0 {
		sheet.Panels = append(sheet.Panels, f.shares(0))
		if f.Fleets[0].Fleet.Watch != nil && len(f.FleetRuns) > 1 {
			sheet.Panels = append(sheet.Panels, f.watched())
		}
	}
	sheet.Panels = append(sheet.Panels, f.exchanges())
	if len(f.FleetRuns) == 1 {
		sheet.Panels = append(sheet.Panels, f.decisions())
	}
	for i := range sheet.Panels {
		sheet.Panels[i].Bands = bands
		if i > 0 {
			sheet.Panels[i].Bands = unlabelled(bands)
		}
	}
}
