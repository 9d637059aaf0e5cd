package plot

import (
	"image/color"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weir-go/weir/service/internal/lab/sim"
)

// Colours that people with any kind of sight can tell apart (Okabe and Ito
// 2008), and greys.
var (
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint  = color.RGBA{0x77, 0x77, 0x77, 0xff}
	grid   = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	grey   = color.RGBA{0xa8, 0xa8, 0xa8, 0xff}
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	red    = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	pink   = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	orange = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	sky    = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
)

var palette = []color.Color{red, blue, green, pink, orange, sky, color.RGBA{0x6a, 0x3d, 0x9a, 0xff}, color.RGBA{0x8c, 0x56, 0x4b, 0xff}}

var (
	dashed = []vg.Length{5, 3}
	dotted = []vg.Length{1.5, 2.5}
)

func stroke(c color.Color, width vg.Length, dashes []vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
}

// over makes points of a run's steps.
func (r Run) over(y func(st sim.Step, seconds float64) float64) []point {
	points := make([]point, 0, len(r.Result.Series))
	before := 0.0
	for _, st := range r.Result.Series {
		at := st.At.Seconds()
		points = append(points, point{at, y(st, at-before)})
		before = at
	}
	return points
}

func (r Run) offered() []point {
	return r.over(func(st sim.Step, dt float64) float64 { return float64(st.Offered) / dt })
}

func (r Run) goodput() []point {
	return r.over(func(st sim.Step, dt float64) float64 { return float64(st.Good) / dt })
}

func (r Run) capacity() []point {
	forecast := r.Scenario.Forecast()
	return r.over(func(st sim.Step, dt float64) float64 {
		c := forecast.Capacity(st.At - time.Duration(dt*0.5e9))
		if math.IsInf(c, 1) {
			return math.NaN()
		}
		return c
	})
}

func (r Run) p50() []point {
	return r.over(func(st sim.Step, _ float64) float64 { return orGap(st.P50) })
}

func (r Run) p99() []point {
	return r.over(func(st sim.Step, _ float64) float64 { return orGap(st.P99) })
}

func orGap(d time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return d.Seconds()
}

// patience is the clients' time-out or deadline, the shortest.
func (r Run) patience() []point {
	least := math.NaN()
	for _, c := range r.Scenario.Clients {
		for _, d := range []time.Duration{c.Timeout, c.Deadline} {
			if d > 0 && !(d.Seconds() >= least) {
				least = d.Seconds()
			}
		}
	}
	return r.over(func(sim.Step, float64) float64 { return least })
}

// boundless is a limit that is none.
const boundless = 1 << 30

func (r Run) state(layer int, of func(sim.Point) int) []point {
	return r.over(func(st sim.Step, _ float64) float64 {
		v := of(st.Layers[layer])
		if v >= boundless {
			return math.NaN()
		}
		return float64(v)
	})
}

func limitOf(p sim.Point) int   { return p.Limit }
func insideOf(p sim.Point) int  { return max(p.Inflight, p.Busy+p.Queued) }
func waitingOf(p sim.Point) int { return p.Waiting }

func (r Run) retries() bool {
	for _, c := range r.Scenario.Clients {
		if c.Retry.Attempts > 1 {
			return true
		}
	}
	return false
}

// panels shows a run in detail.
func (r Run) panels() []panel {
	load := panel{title: "Calls per second", rates: true}
	load.add("offered", stroke(grey, 1.5, nil), r.offered())
	if r.retries() {
		load.add("attempts", stroke(orange, 1.2, nil), r.over(func(st sim.Step, dt float64) float64 { return float64(st.Attempts) / dt }))
	}
	load.add("turned away", stroke(pink, 1.2, nil), r.over(func(st sim.Step, dt float64) float64 { return float64(st.Refused) / dt }))
	load.add("goodput", stroke(green, 2, nil), r.goodput())
	load.add("capacity", stroke(ink, 1, dashed), r.capacity())
	latency := panel{title: "Latency of successes", unit: durations}
	latency.add("p50", stroke(sky, 1.5, nil), r.p50())
	latency.add("p99", stroke(blue, 2, nil), r.p99())
	latency.add("clients give up", stroke(red, 1.2, dashed), r.patience())
	panels := []panel{load, latency}
	for i, l := range r.Scenario.Layers {
		p := panel{title: "In " + l.Name}
		if l.Guard != nil {
			p.add("waiting at the guard", stroke(pink, 1.2, nil), r.state(i, waitingOf))
		}
		p.add("waiting for a worker", stroke(orange, 1.2, nil), r.state(i, func(p sim.Point) int { return p.Queued }))
		p.add("working", stroke(green, 1.5, nil), r.state(i, func(p sim.Point) int { return p.Busy }))
		if l.Guard != nil {
			p.add("in flight", stroke(blue, 1.5, nil), r.state(i, func(p sim.Point) int { return p.Inflight }))
			p.add("limit", stroke(ink, 1.5, dashed), r.state(i, limitOf))
		}
		panels = append(panels, p)
		if instances := r.Result.Layers[i].Instances; len(instances) > 0 {
			panels = append(panels, r.limits(i, instances))
		}
	}
	return panels
}

// limits shows the limit of each instance of a guard.
func (r Run) limits(layer int, instances []sim.Replica) panel {
	p := panel{title: "Limits of the instances at " + r.Scenario.Layers[layer].Name}
	for k, in := range instances {
		label := in.Name
		if len(instances) > len(palette) {
			label = ""
		}
		p.add(label, stroke(palette[k%len(palette)], 1.2, nil), r.state(layer, func(p sim.Point) int { return p.Limits[k] }))
	}
	return p
}

// comparison shows runs side by side.
func (f Figure) comparison() []panel {
	first := f.Runs[0]
	load := panel{title: "Goodput, calls per second", rates: true}
	load.add("offered", stroke(grey, 1.5, nil), first.offered())
	load.add("capacity", stroke(ink, 1, dashed), first.capacity())
	latency := panel{title: "Latency of successes", unit: durations}
	latency.add("clients give up", stroke(ink, 1, dashed), first.patience())
	latency.keys = append(latency.keys, key{"p99", stroke(faint, 1.8, nil)}, key{"p50", stroke(faint, 1.2, dotted)})
	n := len(first.Scenario.Layers)
	flights := make([]panel, n)
	waits := make([]panel, n)
	anybody := make([]bool, n) // waits
	for i, l := range first.Scenario.Layers {
		flights[i] = panel{title: "In flight at " + l.Name}
		waits[i] = panel{title: "Waiting for the guard of " + l.Name}
	}
	for k, r := range f.Runs {
		shade := palette[k%len(palette)]
		load.add("", stroke(shade, 1.8, nil), r.goodput())
		latency.add("", stroke(shade, 1.8, nil), r.p99())
		latency.add("", stroke(shade, 1.2, dotted), r.p50())
		for i := range min(n, len(r.Scenario.Layers)) {
			flights[i].add("", stroke(shade, 1.2, nil), r.state(i, insideOf))
			if r.Scenario.Layers[i].Guard != nil {
				if len(waits[i].lines) == 0 {
					flights[i].keys = []key{{"in flight", stroke(faint, 1.2, nil)}, {"limit", stroke(faint, 1.8, dashed)}}
				}
				flights[i].add("", stroke(shade, 1.8, dashed), r.state(i, limitOf))
				waiting := r.state(i, waitingOf)
				waits[i].add("", stroke(shade, 1.2, nil), waiting)
				anybody[i] = anybody[i] || slices.ContainsFunc(waiting, func(p point) bool { return p.y > 0 })
			}
		}
	}
	panels := []panel{load, latency}
	for i := range flights {
		panels = append(panels, flights[i])
		if anybody[i] {
			panels = append(panels, waits[i])
		}
	}
	return panels
}
