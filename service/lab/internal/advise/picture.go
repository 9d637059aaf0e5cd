package advise

import (
	"image/color"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

// steps is the number of points of the curve of a law.
const steps = 80

// lawSheet has the throughput and the response time over what is in flight: the windows, the law with its interval, and
// the knee.
func (a *Advice) lawSheet() plot.Sheet {
	f := a.parts[len(a.parts)-1].fit
	least, most := span(f.points)
	if k := a.Knee; k.Value != nil {
		most = max(most, min(1.1**k.High, 2**k.Value))
	}
	s := plot.Sheet{Across: "requests in flight", Log: most > 30*least}
	if !s.Log {
		least = 0
	}
	throughput, response := plot.Panel{}, plot.Panel{Unit: plot.Seconds}
	if k := a.Knee; k.Value != nil {
		mark := plot.Mark{Label: "knee", Vertical: true, At: *k.Value}
		band := plot.Band{From: *k.Low, To: *k.High}
		for _, p := range []*plot.Panel{&throughput, &response} {
			p.Marks, p.Bands = append(p.Marks, mark), append(p.Bands, band)
		}
	}
	for i, p := range a.parts {
		label, color := "measured", color.Color(plot.Blue)
		if i < len(a.parts)-1 {
			label, color = "earlier", plot.Grey
			if i > 0 {
				label = ""
			}
		}
		var x, r plotter.XYs
		for _, pt := range p.fit.points {
			x = append(x, plotter.XY{X: pt.n, Y: math.Exp(pt.throughput)})
			r = append(r, plotter.XY{X: pt.n, Y: math.Exp(pt.response)})
		}
		throughput.Dots(label, color, x)
		response.Dots(label, color, r)
	}
	if a.Law != "" {
		style := plot.Stroke(plot.Ink, 1.6, nil)
		x, r := f.model.lines(least, most)
		throughput.Add("law", style, x)
		response.Add("law", style, r)
		lowX, highX, lowR, highR := f.lines(least, most)
		throughput.Areas = []plot.Area{{Color: plot.Shade, Low: lowX, High: highX}}
		response.Areas = []plot.Area{{Color: plot.Shade, Low: lowR, High: highR}}
	}
	s.Panels = []plot.Panel{throughput, response}
	return s
}

// lines returns throughput and response time over what is in flight, from least to most. If least is 0, the points are
// equally far from each other, else their logarithms.
func (m *model) lines(least, most float64) (x, r plotter.XYs) {
	c := m.curve(max(least/4, most/1000), most*4)
	for i := range steps + 1 {
		n := most * float64(i) / steps
		if least > 0 {
			n = least * math.Pow(most/least, float64(i)/steps)
		}
		x = append(x, plotter.XY{X: n, Y: math.Exp(along(c.n, c.x, math.Log(n)))})
		r = append(r, plotter.XY{X: n, Y: math.Exp(along(c.n, c.r, math.Log(n)))})
	}
	return x, r
}

// lines returns the curves between which 95 % of the bootstrap samples are.
func (f *fitted) lines(least, most float64) (lowX, highX, lowR, highR plotter.XYs) {
	lowX, lowR = f.model.lines(least, most)
	highX, highR = slices.Clone(lowX), slices.Clone(lowR)
	xs, rs := make([][]float64, len(lowX)), make([][]float64, len(lowX))
	for _, m := range append(f.boots[:len(f.boots):len(f.boots)], f.model) {
		x, r := m.lines(least, most)
		for i := range x {
			xs[i], rs[i] = append(xs[i], x[i].Y), append(rs[i], r[i].Y)
		}
	}
	for i := range lowX {
		lowX[i].Y, highX[i].Y = middle(xs[i])
		lowR[i].Y, highR[i].Y = middle(rs[i])
	}
	return lowX, highX, lowR, highR
}

// along returns y at x, between the points that are next to it. The xs grow.
func along(xs, ys []float64, x float64) float64 {
	i, _ := slices.BinarySearch(xs, x)
	switch {
	case i == 0:
		return ys[0]
	case i == len(xs):
		return ys[i-1]
	}
	part := (x - xs[i-1]) / (xs[i] - xs[i-1])
	return ys[i-1] + part*(ys[i]-ys[i-1])
}

// timeSheet has what happened over time: requests, what was in flight, latency, and the capacity.
func (a *Advice) timeSheet() plot.Sheet {
	all, length := series(a.records)
	over := func(y func(*slot) float64) (points plotter.XYs) {
		for i := range all {
			points = append(points, plotter.XY{X: (float64(i) + 0.5) * length.Seconds(), Y: y(&all[i])})
		}
		return points
	}
	var rates plot.Panel
	add := func(label string, style plot.Style, count func(*slot) int) {
		if slices.ContainsFunc(all, func(s slot) bool { return count(&s) > 0 }) {
			rates.Add(label, style, over(func(s *slot) float64 { return float64(count(s)) / length.Seconds() }))
		}
	}
	add("came", plot.Plain(1.4, plot.Dashed), func(s *slot) int { return s.came })
	add("served", plot.Stroke(plot.Blue, 2, nil), func(s *slot) int { return s.served })
	add("rejected", plot.Stroke(plot.Orange, 2, nil), func(s *slot) int { return s.rejected })
	add("callers left", plot.Stroke(plot.Pink, 2, nil), func(s *slot) int { return s.left })
	add("failed", plot.Stroke(plot.Red, 2, nil), func(s *slot) int { return s.failed })

	inflight := plot.Panel{}
	inflight.Add("in flight", plot.Stroke(plot.Blue, 2, nil), over(func(s *slot) float64 { return s.inflight }))
	inflight.Add("when the limit was full", plot.Stroke(plot.Orange, 2, nil), over(func(s *slot) float64 { return s.limit }))
	if k := a.Knee.Value; k != nil {
		inflight.Marks = []plot.Mark{{Label: "knee", At: *k}}
	}
	latency := plot.Panel{Unit: plot.Seconds}
	latency.Add("P95", plot.Stroke(plot.Orange, 1.6, nil), over(func(s *slot) float64 { return s.p95 }))
	latency.Add("P50", plot.Stroke(plot.Blue, 2, nil), over(func(s *slot) float64 { return s.p50 }))
	panels := []plot.Panel{rates, inflight, latency}
	if a.Fitted() {
		panels = append(panels, a.capacityPanel())
	}
	return plot.Sheet{Across: "time in the recording", Time: true, Panels: panels}
}

// capacityPanel has the throughput of the windows, and the capacity of each part with its interval.
func (a *Advice) capacityPanel() (p plot.Panel) {
	var done plotter.XYs
	begin := a.windows[0].from
	at := func(t time.Duration) float64 { return (t - begin).Seconds() }
	for i := range a.windows {
		w := &a.windows[i]
		done = append(done, plotter.XY{X: at((w.from + w.to) / 2), Y: w.done})
	}
	p.Add("throughput", plot.Stroke(plot.Blue, 1.6, nil), done)
	var capacity plotter.XYs
	for _, s := range a.History {
		level := func(y float64) plotter.XYs { return plotter.XYs{{X: s.From, Y: y}, {X: s.To, Y: y}} }
		if s.Capacity.Value == nil {
			continue
		}
		capacity = append(capacity, append(level(*s.Capacity.Value), plotter.XY{X: s.To, Y: math.NaN()})...)
		p.Areas = append(p.Areas, plot.Area{Color: plot.Shade, Low: level(*s.Capacity.Low), High: level(*s.Capacity.High)})
	}
	p.Add("capacity", plot.Stroke(plot.Ink, 2, nil), capacity)
	return p
}
