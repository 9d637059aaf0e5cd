package plot

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
)

// scale sets the vertical axis: linear from 0, or logarithmic for latencies and counts
// with a wide range.
func (p *Panel) scale(y *plot.Axis) {
	least, most, lowestPeak := math.Inf(1), 0.0, math.Inf(1)
	for _, l := range p.Lines {
		peak := 0.0
		for _, pt := range l.Points {
			if pt.Y > 0 {
				least, peak = min(least, pt.Y), max(peak, pt.Y)
			}
		}
		if peak > 0 {
			most, lowestPeak = max(most, peak), min(lowestPeak, peak)
		}
	}
	label := decimal
	switch p.Unit {
	case Shares, Parts:
		label = func(v float64) string { return decimal(rounded(100*v, 6)) + " %" }
	case Seconds:
		label = span
	}
	switch {
	case p.Unit == Shares:
		y.Min, y.Max = 0, 1.04
	case p.Unit == Parts:
		for _, m := range p.Marks {
			if !m.Vertical {
				most = max(most, m.At)
			}
		}
		y.Min, y.Max = 0, max(most, 0.05)*1.08
	case most == 0:
		y.Min, y.Max = 0, 1
	case p.Unit == Seconds && most/least > 20, p.Unit == Counts && most/lowestPeak > 12:
		y.Scale = logScale{}
		y.Min, y.Max = max(least, most/1e5)/1.3, most*1.3
		if p.Unit == Counts {
			y.Min = 0.8
		}
		y.Tick.Marker = logarithmic(y.Min, y.Max, label)
		return
	case p.Unit != Seconds && most < 4:
		y.Min, y.Max = 0, 4 // so that ticks are whole numbers
	default:
		y.Min, y.Max = 0, most*1.08
	}
	y.Tick.Marker = linear(nice(y.Max/5), y.Min, y.Max, label)
}

// logScale is logarithmic. It moves values below the axis to its beginning.
type logScale struct{}

func (logScale) Normalize(least, most, x float64) float64 {
	return math.Log(max(x, least)/least) / math.Log(most/least)
}

// moments returns about ten ticks on a time axis from 0.
func moments(most float64) plot.ConstantTicks {
	unit, name := 1.0, " s"
	switch {
	case most > 200:
		unit, name = 60, " min"
	case most < 2:
		unit, name = 0.001, " ms"
	}
	return linear(unit*nice(most/unit/10), 0, most, func(v float64) string {
		if v == 0 {
			return "0"
		}
		return decimal(rounded(v/unit, 6)) + name
	})
}

// Nines returns the place of a percentile below 100 on an axis where each further nine has
// the same width: 0 for 0, 1 for 90, 2 for 99, 3 for 99.9.
func Nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// nines returns ticks at 0, 50, 90, 99, 99.9 and so on.
func nines(most float64) plot.ConstantTicks {
	ticks := plot.ConstantTicks{{Value: 0, Label: "0 %"}, {Value: Nines(50), Label: "50 %"}}
	for n := 1.0; n <= most*(1+1e-9); n++ {
		percentile := rounded(100-math.Pow(10, 2-n), 12)
		ticks = append(ticks, plot.Tick{Value: n, Label: decimal(percentile) + " %"})
	}
	return ticks
}

// linear returns ticks at the multiples of step.
func linear(step, lo, hi float64, label func(float64) string) (ticks plot.ConstantTicks) {
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		v := rounded(i*step, 12)
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return ticks
}

// nice returns the least number >= x that is 1, 2 or 5 times a power of ten.
func nice(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logarithmic returns ticks at powers of ten and, for few decades, between them.
func logarithmic(lo, hi float64, label func(float64) string) (ticks plot.ConstantTicks) {
	decades := math.Log10(hi / lo)
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow(10, e)}
			if t.Value < lo || t.Value > hi {
				continue
			}
			if m == 1 || decades < 3 && (m == 2 || m == 5) {
				t.Label = label(rounded(t.Value, 3))
			}
			if t.Label != "" || decades < 4 {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

// rounded rounds to a number of significant digits.
func rounded(v float64, digits int) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return v
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// span formats seconds with one unit.
func span(seconds float64) string {
	d := time.Duration(math.Round(seconds * 1e9))
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, " h"}, {time.Minute, " min"}, {time.Second, " s"}, {time.Millisecond, " ms"}, {time.Microsecond, " µs"}} {
		if d >= u.unit && (u.unit < time.Minute || d%u.unit == 0 && d >= 2*u.unit) {
			return decimal(rounded(float64(d)/float64(u.unit), 4)) + u.name
		}
	}
	if d == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(d), 10) + " ns"
}
