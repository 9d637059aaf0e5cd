package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/fleet"
	"github.com/weir-go/weir/service/lab/internal/plot"
)

// fleetSheet adds the panels of runs of fleets.
func (f drawing) fleetSheet(sheet *plot.Sheet) {
	first := f.FleetRuns[0]
	note := fmt.Sprintf("%s, %s, a limit of %s a second in all", several(first.Leaves, "leaf", "leaves"), several(first.Keys, "key", "keys"), thousands(int(first.Limit)))
	if slices.ContainsFunc(f.FleetRuns, func(r fleet.Result) bool { return r.Leaves != first.Leaves || r.Limit != first.Limit }) {
		note = "fleets of several sizes"
	}
	sheet.Notes = append(sheet.Notes, note)
	alone := len(f.FleetRuns) == 1
	sheet.Panels = []plot.Panel{f.allowedPanel(), f.overPanel()}
	if alone {
		if first.Name != "" {
			sheet.Title += ": " + first.Name
		}
		if len(f.Fleets[0].Fleet.Watch) > 0 {
			sheet.Panels = append(sheet.Panels, f.watchPanel())
		}
		sheet.Panels = append(sheet.Panels, f.stepsPanel())
	} else {
		for i, r := range f.FleetRuns {
			sheet.Keys = append(sheet.Keys, plot.Key{Label: r.Name, Style: plot.Stroke(plot.Colour(i), 3, nil)})
		}
		if len(f.Fleets[0].Fleet.Watch) > 0 {
			sheet.Panels = append(sheet.Panels, f.jumpPanel())
		}
	}
	sheet.Panels = append(sheet.Panels, f.exchangesPanel())
	for i := range sheet.Panels {
		for _, b := range f.bands() {
			if i > 0 {
				b.Label = ""
			}
			sheet.Panels[i].Bands = append(sheet.Panels[i].Bands, b)
		}
	}
}

func several(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// thousands formats a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// bands returns the times of the faults of all runs, each once.
func (f drawing) bands() (bands []plot.Band) {
	for _, sc := range f.Fleets {
		for _, fault := range sc.Faults {
			b := plot.Band{Label: cmp.Or(fault.Name, fault.Kind), From: fault.At.Seconds(), To: min(fault.At+fault.Over+fault.For, sc.Duration).Seconds()}
			if !slices.Contains(bands, b) {
				bands = append(bands, b)
			}
		}
	}
	return bands
}

// fleetPoints returns a point for each step of a run.
func fleetPoints(r fleet.Result, y func(fleet.Step) float64) (points plotter.XYs) {
	before := time.Duration(0)
	for _, st := range r.Series {
		points = append(points, plotter.XY{X: (before + st.At).Seconds() / 2, Y: y(st)})
		before = st.At
	}
	return points
}

// allowedPanel shows what was offered and allowed of the limit of the first keys.
func (f drawing) allowedPanel() plot.Panel {
	p := plot.Panel{Title: "Allowed, of the limit", Unit: plot.Parts, Marks: []plot.Mark{{Label: "limit", At: 1}}}
	if keys := f.Fleets[0].Keys; len(keys) > 1 {
		p.Title = fmt.Sprintf("Allowed, of the limit of %s", keys[0].Name)
	}
	p.Add("offered", plot.Stroke(plot.Grey, 1.5, nil), fleetPoints(f.FleetRuns[0], func(st fleet.Step) float64 {
		return st.First.Offered / f.FleetRuns[0].First
	}))
	f.each(&p, "allowed", 1.6, func(r fleet.Result, st fleet.Step) float64 { return st.First.Allowed / r.First })
	return p
}

// each adds a line of each run, in its colour.
func (f drawing) each(p *plot.Panel, label string, width float64, y func(fleet.Result, fleet.Step) float64) {
	for i, r := range f.FleetRuns {
		style := plot.Stroke(plot.Colour(i), plot.Points(width), nil)
		if len(f.FleetRuns) > 1 {
			label = ""
		}
		p.Add(label, style, fleetPoints(r, func(st fleet.Step) float64 { return y(r, st) }))
	}
}

// overPanel shows the overshoot.
func (f drawing) overPanel() plot.Panel {
	p := plot.Panel{Title: "Overshoot: worst window of 10 s above burst + refill", Unit: plot.Parts}
	f.each(&p, "10 s", 1.6, func(_ fleet.Result, st fleet.Step) float64 { return st.Long })
	if len(f.FleetRuns) == 1 {
		p.Title = "Overshoot: worst window above burst + refill"
		p.Add("1 s", plot.Stroke(plot.Blue, 1.6, nil), fleetPoints(f.FleetRuns[0], func(st fleet.Step) float64 { return st.Short }))
	}
	return p
}

// watchPanel shows the watched leaves of one run.
func (f drawing) watchPanel() plot.Panel {
	p := plot.Panel{Title: "Leaves: allowed, tokens per second", Unit: plot.Rates}
	p.Keys = []plot.Key{{Label: "fair share", Style: plot.Plain(1.2, plot.Dashed)}}
	for i, leaf := range f.Fleets[0].Fleet.Watch {
		r, c := f.FleetRuns[0], plot.Colour(i)
		p.Add("", plot.Stroke(c, 1.2, plot.Dashed), fleetPoints(r, func(st fleet.Step) float64 { return st.Watch[i].Fair }))
		p.Add(fmt.Sprintf("leaf %d", leaf), plot.Stroke(c, 1.6, nil), fleetPoints(r, func(st fleet.Step) float64 { return st.Watch[i].Allowed }))
	}
	return p
}

// jumpPanel shows the first watched leaf of each run.
func (f drawing) jumpPanel() plot.Panel {
	p := plot.Panel{Title: fmt.Sprintf("Leaf %d: allowed, tokens per second", f.Fleets[0].Fleet.Watch[0]), Unit: plot.Rates}
	watched := func(y func(fleet.Watched) float64) func(fleet.Step) float64 {
		return func(st fleet.Step) float64 {
			if len(st.Watch) == 0 {
				return math.NaN()
			}
			return y(st.Watch[0])
		}
	}
	p.Add("fair share", plot.Stroke(plot.Ink, 1.2, plot.Dashed), fleetPoints(f.FleetRuns[0], watched(func(w fleet.Watched) float64 { return w.Fair })))
	f.each(&p, "", 1.6, func(_ fleet.Result, st fleet.Step) float64 {
		return watched(func(w fleet.Watched) float64 { return w.Allowed })(st)
	})
	return p
}

// stepsPanel shows the steps of the decisions of one run.
func (f drawing) stepsPanel() plot.Panel {
	p := plot.Panel{Title: "Decisions by step", Unit: plot.Shares}
	r := f.FleetRuns[0]
	for i, name := range fleet.Steps {
		if r.Total.Decisions[name] == 0 {
			continue
		}
		p.Add(name, plot.Stroke(plot.Colour(i), 1.6, nil), fleetPoints(r, func(st fleet.Step) float64 {
			all := 0.0
			for _, n := range st.Decisions {
				all += n
			}
			if all == 0 {
				return math.NaN()
			}
			return st.Decisions[name] / all
		}))
	}
	return p
}

// exchangesPanel shows the load of the upstream.
func (f drawing) exchangesPanel() plot.Panel {
	p := plot.Panel{Title: "At the upstream, per second", Unit: plot.Rates}
	f.each(&p, "exchanges", 1.6, func(_ fleet.Result, st fleet.Step) float64 { return st.Exchanges })
	if len(f.FleetRuns) == 1 {
		p.Add("reports of keys", plot.Stroke(plot.Blue, 1.2, nil), fleetPoints(f.FleetRuns[0], func(st fleet.Step) float64 { return st.Reports }))
		p.Add("exchanges without an answer", plot.Stroke(plot.Pink, 1.2, nil), fleetPoints(f.FleetRuns[0], func(st fleet.Step) float64 { return st.Failures }))
	} else {
		p.Title = "Exchanges at the upstream, per second"
	}
	return p
}
