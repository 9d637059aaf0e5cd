package report

import (
	"math"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

// timeSheet has the rates and the latencies over time.
func (r Report) timeSheet() plot.Sheet {
	rates := plot.Panel{Title: "Requests per second"}
	latency := plot.Panel{Title: "Latency", Unit: plot.Seconds}
	over := func(value func(Slot) float64, gap bool) (points plotter.XYs) {
		for _, s := range r.Series {
			y := value(s)
			if gap && s.Max == 0 {
				y = math.NaN()
			}
			points = append(points, plotter.XY{X: s.At + s.Length/2, Y: y})
		}
		return points
	}
	some := func(value func(Slot) float64) bool {
		for _, s := range r.Series {
			if value(s) > 0 {
				return true
			}
		}
		return false
	}
	rates.Add("offered", plot.Plain(1.4, plot.Dashed), over(func(s Slot) float64 { return s.Offered }, false))
	for _, l := range []struct {
		name  string
		color int
		value func(Slot) float64
	}{
		{"success", colorSuccess, func(s Slot) float64 { return s.Succeeded }}, {"rejected", colorRejected, func(s Slot) float64 { return s.Rejected }},
		{"failed", colorFailed, func(s Slot) float64 { return s.Failed }},
	} {
		if l.color == colorSuccess || some(l.value) {
			rates.Add(l.name, plot.Stroke(plot.Colour(l.color), 2, nil), over(l.value, false))
		}
	}
	for _, l := range []struct {
		name  string
		style plot.Style
		value func(Slot) float64
	}{
		{"max", plot.Stroke(plot.Grey, 1, nil), func(s Slot) float64 { return s.Max }},
		{"P99", plot.Stroke(plot.Red, 1.6, nil), func(s Slot) float64 { return s.P99 }},
		{"P95", plot.Stroke(plot.Orange, 1.6, nil), func(s Slot) float64 { return s.P95 }},
		{"P50", plot.Stroke(plot.Blue, 2, nil), func(s Slot) float64 { return s.P50 }},
	} {
		latency.Add(l.name, l.style, over(l.value, true))
	}
	return plot.Sheet{Title: "Over time", Notes: []string{"requests per second, and latency of the successes from their intended start, at that time"},
		Across: "time", Time: true, Panels: []plot.Panel{latency, rates}}
}

// Colours of the groups, and of the two runs of a comparison.
const (
	colorSuccess  = 1
	colorRejected = 4
	colorFailed   = 0
	colorAll      = 2
	colorBefore   = 1
	colorAfter    = 0
)

// percentileSheet has a curve of latency over the percentile for each group.
func percentileSheet(groups []group) plot.Sheet {
	panel := plot.Panel{Title: "Latency", Unit: plot.Seconds}
	for _, g := range groups {
		panel.Add(g.name, plot.Stroke(plot.Colour(g.color), 2, nil), g.latency.points())
	}
	return plot.Sheet{Title: "Latency by percentile", Notes: []string{"each further nine has the same width; the curve ends at the slowest request"},
		Across: "percentile", Nines: true, Panels: []plot.Panel{panel}}
}

// points returns the percentiles from 0 to the last one below the maximum.
func (l *Latency) points() (points plotter.XYs) {
	const each = 60 // points for each nine
	last := math.Log10(float64(max(l.Count, 10)))
	for i := 0; float64(i)/each <= last; i++ {
		nines := float64(i) / each
		points = append(points, plotter.XY{X: nines, Y: l.At(100 - math.Pow(10, 2-nines))})
	}
	return points
}

// timeSheet compares the rates and the latencies of two runs over time.
func (c Comparison) timeSheet() plot.Sheet {
	p99 := plot.Panel{Title: "P99", Unit: plot.Seconds}
	good := plot.Panel{Title: "Requests per second"}
	for i, run := range []Run{c.Before, c.After} {
		var late, rate plotter.XYs
		for _, s := range run.Report.Series {
			at := s.At + s.Length/2
			late = append(late, plotter.XY{X: at, Y: s.P99})
			if s.Max == 0 {
				late[len(late)-1].Y = math.NaN()
			}
			rate = append(rate, plotter.XY{X: at, Y: s.Succeeded})
		}
		style := plot.Stroke(plot.Colour([]int{colorBefore, colorAfter}[i]), 2, nil)
		name := []string{"A", "B"}[i]
		p99.Add(name, style, late)
		good.Add(name, style, rate)
	}
	return plot.Sheet{Title: "Over time", Notes: []string{"successes: latency from the intended start, and rate"},
		Across: "time", Time: true, Panels: []plot.Panel{p99, good}}
}

// stamp formats an instant.
func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") }
