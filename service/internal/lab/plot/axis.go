package plot

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// plot returns the plot of a panel for the time from 0 to end. Only the last panel
// has labels on the time axis.
func (p *panel) plot(end float64, last bool) *plot.Plot {
	g := plot.New()
	g.X.Min, g.X.Max = 0, end
	g.X.Tick.Marker = plot.TickerFunc(func(_, most float64) []plot.Tick { return moments(most, last) })
	p.scale(g)
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		a.Tick.Label.Font.Variant, a.Tick.Label.Font.Size = "Sans", 9
		a.Tick.Label.Color, a.Color = faint, faint
		a.LineStyle.Width, a.Tick.LineStyle.Width = 0.5, 0.5
		a.Tick.LineStyle.Color, a.Tick.Length = faint, 3
		a.Padding = 0
	}
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = grid, grid
	lines.Horizontal.Width, lines.Vertical.Width = 0.6, 0.6
	lines.Horizontal.Dashes, lines.Vertical.Dashes = nil, nil
	g.Add(lines)
	for _, l := range p.lines {
		for _, stretch := range stretches(l.points) {
			drawn, err := plotter.NewLine(stretch)
			if err != nil {
				continue // not a number: it was not measured
			}
			drawn.LineStyle = l.style
			g.Add(drawn)
			if len(stretch) == 1 {
				dot, _ := plotter.NewScatter(stretch)
				dot.GlyphStyle.Color, dot.GlyphStyle.Radius = l.style.Color, max(l.style.Width*0.6, vg.Points(0.8))
				g.Add(dot)
			}
		}
	}
	// Add has widened the axes to the data; the panel's own bounds count.
	g.X.Min, g.X.Max = 0, end
	p.scale(g)
	return g
}

// stretches cuts a line at its gaps.
func stretches(points []point) (all []plotter.XYs) {
	var now plotter.XYs
	for _, pt := range points {
		if math.IsNaN(pt.y) {
			if len(now) > 0 {
				all = append(all, now)
			}
			now = nil
			continue
		}
		now = append(now, plotter.XY{X: pt.x, Y: pt.y})
	}
	if len(now) > 0 {
		all = append(all, now)
	}
	return all
}

// scale sets the vertical axis: linear from 0, or logarithmic for latencies and counts
// with a wide range.
func (p *panel) scale(g *plot.Plot) {
	least, most := math.Inf(1), 0.0
	typical := []float64{}
	for _, l := range p.lines {
		highest := 0.0
		for _, pt := range l.points {
			if pt.y > 0 {
				least, most = min(least, pt.y), max(most, pt.y)
				highest = max(highest, pt.y)
			}
		}
		typical = append(typical, highest)
	}
	label := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	if p.unit == durations {
		label = func(v float64) string { return span(time.Duration(math.Round(v * 1e9))) }
	}
	switch {
	case p.unit == shares:
		g.Y.Min, g.Y.Max = 0, 1.04
		label = func(v float64) string { return strconv.FormatFloat(100*v, 'f', -1, 64) + " %" }
	case most == 0:
		g.Y.Min, g.Y.Max = 0, 1
	case p.unit == durations && most/least > 20, p.unit == counts && spread(typical) > 12 && !p.rates:
		least = max(least, most/1e5)
		g.Y.Scale = logScale{}
		g.Y.Min, g.Y.Max = least/1.3, most*1.3
		if p.unit == counts {
			g.Y.Min = 0.8
		}
		g.Y.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return logarithmic(lo, hi, label) })
		return
	default:
		g.Y.Min, g.Y.Max = 0, most*1.08
		if p.unit == counts && most < 4 {
			g.Y.Max = 4 // so that ticks are whole numbers
		}
	}
	g.Y.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return linear(lo, hi, 5, label) })
}

// spread returns the ratio between the highest and the lowest peak of the lines.
func spread(peaks []float64) float64 {
	least, most := math.Inf(1), 0.0
	for _, p := range peaks {
		if p > 0 {
			least, most = min(least, p), max(most, p)
		}
	}
	if most == 0 {
		return 1
	}
	return most / least
}

// logScale is logarithmic. It moves values below the axis to its beginning.
type logScale struct{}

func (logScale) Normalize(least, most, x float64) float64 {
	return math.Log(max(x, least)/least) / math.Log(most/least)
}

// moments returns about ten ticks on the time axis.
func moments(most float64, labels bool) []plot.Tick {
	step, unit, name := nice(most/10), 1.0, " s"
	switch {
	case most > 100*60:
		step, unit, name = 60*nice(most/10/60), 60, " min"
	case most > 200:
		for _, step = range []float64{30, 60, 120, 300, 600} {
			if step >= most/12 {
				break
			}
		}
		unit, name = 60, " min"
	case most < 2:
		unit, name = 0.001, " ms"
	}
	return linearAt(step, 0, most, func(v float64) string {
		switch {
		case !labels:
			return " " // a grid line, all the same
		case v == 0:
			return "0"
		}
		return strconv.FormatFloat(v/unit, 'g', 6, 64) + name
	})
}

// linear returns about n ticks at 1, 2 or 5 times a power of ten.
func linear(lo, hi float64, n int, label func(float64) string) (ticks []plot.Tick) {
	return linearAt(nice((hi-lo)/float64(n)), lo, hi, label)
}

func linearAt(step, lo, hi float64, label func(float64) string) (ticks []plot.Tick) {
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(i*step, 'g', 12, 64), 64)
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return ticks
}

// nice returns the least number >= x that is 1, 2 or 5 times a power of ten.
func nice(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logarithmic returns ticks at powers of ten and, for few decades, between them.
func logarithmic(lo, hi float64, label func(float64) string) (ticks []plot.Tick) {
	decades := math.Log10(hi / lo)
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < lo || v > hi {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || decades < 3 && (m == 2 || m == 5) {
				rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
				t.Label = label(rounded)
			}
			if t.Label != "" || decades < 4 {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

// span formats a duration with one unit.
func span(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, " h"}, {time.Minute, " min"}, {time.Second, " s"}, {time.Millisecond, " ms"}, {time.Microsecond, " µs"}} {
		if d >= u.unit && (u.unit < time.Minute || d%u.unit == 0 && d >= 2*u.unit) {
			return strconv.FormatFloat(math.Round(float64(d)/float64(u.unit)*1000)/1000, 'f', -1, 64) + u.name
		}
	}
	if d == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(d), 10) + " ns"
}
