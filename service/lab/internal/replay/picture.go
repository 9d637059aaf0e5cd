package replay

import (
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

// Draw draws what happened and what would have, over the time at which requests came, in one of plot.Formats.
func (r *Report) Draw(w io.Writer, format string) error {
	return plot.DrawSheet(w, r.sheet(), format)
}

func (r *Report) sheet() plot.Sheet {
	sheet := plot.Sheet{
		Title: "What happened, and what would have", Notes: []string{fmt.Sprintf("weirlab replay %s · %d requests · by the time at which they came", r.File, r.Requests)},
		Across: "time in the recording", Time: true, Wide: true,
	}
	served := plot.Panel{Title: "Served in time, requests per second"}
	latency := plot.Panel{Title: "P95 of the served", Unit: plot.Seconds}
	turned := plot.Panel{Title: "Rejected and too late, requests per second"}
	draw := func(label string, style plot.Style, t *tally, runs int) {
		sheet.Keys = append(sheet.Keys, plot.Key{Label: label, Style: style})
		served.Add("", style, t.curve(func(i int) float64 { return t.rate(len(t.latencies[i]), runs) }))
		turned.Add("", style, t.curve(func(i int) float64 { return t.rate(t.turned[i], runs) }))
		latency.Add("", style, t.curve(func(i int) float64 {
			if len(t.latencies[i]) == 0 {
				return math.NaN()
			}
			slices.Sort(t.latencies[i])
			return quantile(t.latencies[i], 0.95)
		}))
	}
	served.Add("came", plot.Stroke(plot.Grey, 1.5, nil), r.happened.curve(func(i int) float64 { return r.happened.rate(r.happened.came[i], 1) }))
	for i, o := range r.Outcomes {
		draw("limit "+o.Policy, plot.Stroke(plot.Colour(i), 1.5, nil), o.tally, r.Seeds)
	}
	draw("what happened", plot.Stroke(plot.Ink, 2, nil), r.happened, 1)
	if r.Replayed != nil {
		draw("the same, replayed", plot.Stroke(plot.Grey, 1.8, plot.Dashed), r.Replayed.tally, r.Seeds)
	}
	sheet.Panels = []plot.Panel{served, turned, latency}
	return sheet
}

// curve returns a point for each step.
func (t *tally) curve(y func(i int) float64) (points plotter.XYs) {
	for i := range steps {
		points = append(points, plotter.XY{X: (float64(i) + 0.5) * t.step.Seconds(), Y: y(i)})
	}
	return points
}

// rate returns a count of a step of several runs as requests a second.
func (t *tally) rate(n, runs int) float64 { return float64(n) / float64(runs) / t.step.Seconds() }
