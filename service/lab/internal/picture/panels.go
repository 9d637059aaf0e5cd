package picture

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A run is a scenario and its result.
type run struct {
	sim.Scenario
	result sim.Result
}

// points returns a point for each step. Dt is its length in seconds.
func (r run) points(y func(st sim.Step, dt float64) float64) (points plotter.XYs) {
	before := 0.0
	for _, st := range r.result.Series {
		at := st.At.Seconds()
		points = append(points, plotter.XY{X: at, Y: y(st, at-before)})
		before = at
	}
	return points
}

func (r run) rate(count func(sim.Step) uint32) plotter.XYs {
	return r.points(func(st sim.Step, dt float64) float64 { return float64(count(st)) / dt })
}

func (r run) capacity() plotter.XYs {
	forecast := r.Forecast()
	return r.points(func(st sim.Step, dt float64) float64 {
		c := forecast.Capacity(st.At - time.Duration(dt*0.5e9))
		if math.IsInf(c, 1) {
			return math.NaN()
		}
		return c
	})
}

// latency returns points with a gap at 0.
func (r run) latency(of func(sim.Step) time.Duration) plotter.XYs {
	return r.points(func(st sim.Step, _ float64) float64 {
		if of(st) == 0 {
			return math.NaN()
		}
		return of(st).Seconds()
	})
}

// patience is the shortest time-out or deadline of the clients.
func (r run) patience() plotter.XYs {
	least := time.Duration(0)
	for _, c := range r.Clients {
		for _, d := range []time.Duration{c.Timeout, c.Deadline} {
			if d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
	}
	return r.latency(func(sim.Step) time.Duration { return least })
}

func (r run) state(layer int, of func(sim.Point) int) plotter.XYs {
	return r.points(func(st sim.Step, _ float64) float64 {
		if v := of(st.Layers[layer]); v < sim.Unlimited {
			return float64(v)
		}
		return math.NaN()
	})
}

func offered(st sim.Step) uint32    { return st.Offered }
func goodput(st sim.Step) uint32    { return st.Good }
func p50(st sim.Step) time.Duration { return st.P50 }
func p99(st sim.Step) time.Duration { return st.P99 }

func limitOf(p sim.Point) int   { return p.Limit }
func waitingOf(p sim.Point) int { return p.Waiting }

// panels shows a run in detail.
func (r run) panels() []plot.Panel {
	load := plot.Panel{Title: "Calls per second"}
	load.Add("offered", plot.Stroke(plot.Grey, 1.5, nil), r.rate(offered))
	if slices.ContainsFunc(r.Clients, func(c sim.Client) bool { return c.Retry.Attempts > 1 }) {
		load.Add("attempts", plot.Stroke(plot.Orange, 1.2, nil), r.rate(func(st sim.Step) uint32 { return st.Attempts }))
	}
	load.Add("turned away", plot.Stroke(plot.Pink, 1.2, nil), r.rate(func(st sim.Step) uint32 { return st.Refused }))
	load.Add("goodput", plot.Stroke(plot.Green, 2, nil), r.rate(goodput))
	load.Add("capacity", plot.MarkStyle, r.capacity())
	latency := plot.Panel{Title: "Latency of successes", Unit: plot.Seconds}
	latency.Add("p50", plot.Stroke(plot.Sky, 1.5, nil), r.latency(p50))
	latency.Add("p99", plot.Stroke(plot.Blue, 2, nil), r.latency(p99))
	latency.Add("clients give up", plot.Stroke(plot.Red, 1.2, plot.Dashed), r.patience())
	panels := []plot.Panel{load, latency}
	for i, l := range r.Layers {
		p := plot.Panel{Title: "In " + l.Name, Unit: plot.Counts}
		if l.Guard != nil {
			p.Add("waiting at the guard", plot.Stroke(plot.Pink, 1.2, nil), r.state(i, waitingOf))
		}
		p.Add("waiting for a worker", plot.Stroke(plot.Orange, 1.2, nil), r.state(i, func(p sim.Point) int { return p.Queued }))
		p.Add("working", plot.Stroke(plot.Green, 1.5, nil), r.state(i, func(p sim.Point) int { return p.Busy }))
		if l.Guard != nil {
			p.Add("in flight", plot.Stroke(plot.Blue, 1.5, nil), r.state(i, func(p sim.Point) int { return p.Inflight }))
			p.Add("limit", plot.Stroke(plot.Ink, 1.5, plot.Dashed), r.state(i, limitOf))
		}
		panels = append(panels, p)
		if instances := r.result.Layers[i].Instances; len(instances) > 0 {
			panels = append(panels, r.limits(i, instances))
		}
	}
	return panels
}

// limits shows the limit of each instance of a guard.
func (r run) limits(layer int, instances []sim.Replica) plot.Panel {
	p := plot.Panel{Title: "Limits of the instances at " + r.Layers[layer].Name, Unit: plot.Counts}
	for k, in := range instances {
		label := in.Name
		if len(instances) > plot.Colours {
			label = ""
		}
		p.Add(label, plot.Stroke(plot.Colour(k), 1.2, nil), r.state(layer, func(p sim.Point) int { return p.Limits[k] }))
	}
	return p
}

// comparison shows runs side by side, each in a colour.
func comparison(runs []run) []plot.Panel {
	first := runs[0]
	load := plot.Panel{Title: "Goodput, calls per second"}
	load.Add("offered", plot.Stroke(plot.Grey, 1.5, nil), first.rate(offered))
	load.Add("capacity", plot.MarkStyle, first.capacity())
	latency := plot.Panel{Title: "Latency of successes", Unit: plot.Seconds}
	latency.Add("clients give up", plot.MarkStyle, first.patience())
	latency.Keys = append(latency.Keys,
		plot.Key{Label: "p99", Style: plot.Plain(1.8, nil)}, plot.Key{Label: "p50", Style: plot.Plain(1.2, plot.Dotted)})
	for k, r := range runs {
		load.Add("", plot.Stroke(plot.Colour(k), 1.8, nil), r.rate(goodput))
		latency.Add("", plot.Stroke(plot.Colour(k), 1.8, nil), r.latency(p99))
		latency.Add("", plot.Stroke(plot.Colour(k), 1.2, plot.Dotted), r.latency(p50))
	}
	panels := []plot.Panel{load, latency}
	for i, l := range first.Layers {
		flights := plot.Panel{Title: "In flight at " + l.Name, Unit: plot.Counts}
		waits := plot.Panel{Title: "Waiting for the guard of " + l.Name, Unit: plot.Counts}
		waited := false
		for k, r := range runs {
			if i >= len(r.Layers) {
				continue
			}
			flights.Add("", plot.Stroke(plot.Colour(k), 1.2, nil), r.state(i, func(p sim.Point) int { return max(p.Inflight, p.Busy+p.Queued) }))
			if r.Layers[i].Guard == nil {
				continue
			}
			flights.Keys = []plot.Key{
				{Label: "in flight", Style: plot.Plain(1.2, nil)}, {Label: "limit", Style: plot.Plain(1.8, plot.Dashed)},
			}
			flights.Add("", plot.Stroke(plot.Colour(k), 1.8, plot.Dashed), r.state(i, limitOf))
			waiting := r.state(i, waitingOf)
			waits.Add("", plot.Stroke(plot.Colour(k), 1.2, nil), waiting)
			waited = waited || slices.ContainsFunc(waiting, func(p plotter.XY) bool { return p.Y > 0 })
		}
		panels = append(panels, flights)
		if waited {
			panels = append(panels, waits)
		}
	}
	return panels
}
