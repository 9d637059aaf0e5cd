package sla

import (
	"fmt"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
)

// seen is the least latency that a plot shows. Lower ones would take most of a
// logarithmic axis.
const seen = 50 * time.Microsecond

// source is named in pictures.
const source = "after rodaine.com, The X-Files: Controlling Throughput with rate.Limiter (2017)"

func (r Result) how() string {
	how := "over HTTP on one machine"
	if r.Simulated {
		how = "in virtual time"
	}
	return fmt.Sprintf("%s · seed %d", how, r.Seed)
}

// The styles of a high and a low quantile. Lines have the colour of their row.
var solid, dotted = plot.Plain(2, nil), plot.Plain(1.4, plot.Dotted)

func (r Row) in(style plot.Style) plot.Style {
	style.Color = plot.Colour(r.colour)
	return style
}

func (r Row) key() plot.Key { return plot.Key{Label: r.Name, Style: r.in(plot.Plain(3, nil))} }

// Draw writes the source's four panels as a picture, in one of plot.Formats. The result is
// one of the setting.
func (r Result) Draw(s Setting, w io.Writer, format string) error {
	sheet := plot.Sheet{
		Title: "What keeps a service within its agreement",
		Notes: []string{
			fmt.Sprintf("a service calls %d workers, %v each, and gives up after %v · %s", s.Concurrency, s.Work.Mean.Round(10*time.Microsecond), s.Timeout, r.how()),
			source,
		},
		Across: "offered, requests per second",
		Panels: []plot.Panel{{Title: "Success", Unit: plot.Shares, Marks: []plot.Mark{
			{Label: fmt.Sprintf("agreed: %g rps, P95 %v", r.Agreed.Rate, r.Agreed.P95), Vertical: true, At: r.Agreed.Rate},
		}}},
	}
	for _, title := range []string{"Latency of all", "Latency of successes", "Latency of failures, at least 50 µs"} {
		sheet.Panels = append(sheet.Panels, plot.Panel{
			Title: title, Unit: plot.Seconds, Marks: []plot.Mark{{Vertical: true, At: r.Agreed.Rate}, {At: r.Agreed.P95.Seconds()}},
			Keys: []plot.Key{{Label: "P50", Style: dotted}, {Label: "P95", Style: solid}},
		})
	}
	for _, row := range s.Rows() {
		var success plotter.XYs
		var p50, p95 [3]plotter.XYs
		for _, p := range r.Points {
			if p.Row != row.Name {
				continue
			}
			success = append(success, plotter.XY{X: p.Rate, Y: p.Success})
			for i, l := range []Latency{p.All, p.Successes, p.Failures} {
				p50[i] = append(p50[i], plotter.XY{X: p.Rate, Y: l.shown(l.P50)})
				p95[i] = append(p95[i], plotter.XY{X: p.Rate, Y: l.shown(l.P95)})
			}
		}
		if success == nil {
			continue
		}
		sheet.Keys = append(sheet.Keys, row.key())
		sheet.Panels[0].Add("", row.in(solid), success)
		for i := range p50 {
			sheet.Panels[i+1].Add("", row.in(dotted), p50[i])
			sheet.Panels[i+1].Add("", row.in(solid), p95[i])
		}
	}
	return plot.DrawSheet(w, sheet, format)
}

// shown returns a quantile in seconds, or a gap if there were no requests.
func (l Latency) shown(d time.Duration) float64 {
	if l.Count == 0 {
		return math.NaN()
	}
	return max(d, seen).Seconds()
}

// DrawSlow writes the slow-down as a picture, in one of plot.Formats.
func (r Result) DrawSlow(s Setting, w io.Writer, format string) error {
	goodput := plot.Panel{Title: "Goodput, requests per second", Marks: []plot.Mark{{Label: "offered", At: r.Agreed.Rate}}}
	latency := plot.Panel{Title: "Latency of successes, P95", Unit: plot.Seconds,
		Marks: []plot.Mark{{Label: fmt.Sprintf("agreed: %v", r.Agreed.P95), At: r.Agreed.P95.Seconds()}}}
	var keys []plot.Key
	phase := time.Duration(0)
	for _, row := range s.Rows() {
		for _, c := range r.Slow {
			if c.Row != row.Name {
				continue
			}
			phase = c.Phase
			var good, late plotter.XYs
			for i, s := range c.Steps {
				at := (time.Duration(i)*c.Step + c.Step/2).Seconds()
				good = append(good, plotter.XY{X: at, Y: s.Goodput})
				late = append(late, plotter.XY{X: at, Y: s.P95.Seconds()})
				if s.P95 == 0 {
					late[i].Y = math.NaN()
				}
			}
			keys = append(keys, row.key())
			goodput.Add("", row.in(solid), good)
			latency.Add("", row.in(solid), late)
		}
	}
	slow := []plot.Mark{{Vertical: true, At: phase.Seconds()}, {Vertical: true, At: 2 * phase.Seconds()}}
	goodput.Marks, latency.Marks = append(goodput.Marks, slow...), append(latency.Marks, slow...)
	return plot.DrawSheet(w, plot.Sheet{
		Title: fmt.Sprintf("%g requests per second, and the upstream takes twice as long from %v to %v",
			r.Agreed.Rate, phase, 2*phase),
		Notes: []string{r.how(), source}, Keys: keys, Across: "time", Time: true, Panels: []plot.Panel{goodput, latency},
	}, format)
}
