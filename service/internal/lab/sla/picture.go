package sla

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/internal/lab/plot"
)

// seen is the least latency that a plot shows. Lower ones would take most of a
// logarithmic axis.
const seen = 50 * time.Microsecond

// source is named in pictures.
const source = "after rodaine.com, The X-Files: Controlling Throughput with rate.Limiter (2017)"

// legend returns the keys of the rows that were measured.
func legend(measured func(row string) bool) (keys []plot.Key) {
	for _, row := range Rows() {
		if measured(row.Name) {
			keys = append(keys, plot.Key{Label: row.Name, Style: plot.Stroke(plot.Colour(row.colour), 3, nil)})
		}
	}
	return keys
}

func (r Result) how() string {
	how := "over HTTP on one machine"
	if r.Simulated {
		how = "in virtual time"
	}
	return fmt.Sprintf("%s · seed %d", how, r.Seed)
}

// Draw writes the source's four panels as a picture, in one of plot.Formats.
func (r Result) Draw(w io.Writer, format string) error {
	agreed := plot.Mark{Vertical: true, At: AgreedRate}
	success := plot.Panel{Title: "Success", Unit: plot.Shares, Marks: []plot.Mark{agreed}}
	success.Marks[0].Label = fmt.Sprintf("agreed: %d rps, P95 %v", AgreedRate, AgreedP95)
	success.Lines = r.lines(solid, func(p Point) float64 { return p.Success })
	latency := func(title string, of func(Point) Latency) plot.Panel {
		return plot.Panel{
			Title: title, Unit: plot.Seconds, Marks: []plot.Mark{agreed, {At: AgreedP95.Seconds()}},
			Keys: []plot.Key{{Label: "P50", Style: dotted}, {Label: "P95", Style: solid}},
			Lines: append(r.lines(dotted, func(p Point) float64 { return shown(of(p), of(p).P50) }),
				r.lines(solid, func(p Point) float64 { return shown(of(p), of(p).P95) })...),
		}
	}
	return plot.DrawSheet(w, plot.Sheet{
		Title:  "What keeps a service within its agreement",
		Notes:  []string{fmt.Sprintf("a service calls %d workers, %v each, and gives up after %v · %s", Workers, Mean, Timeout, r.how()), source},
		Across: "offered, requests per second",
		Keys: legend(func(row string) bool {
			return slices.ContainsFunc(r.Points, func(p Point) bool { return p.Row == row })
		}),
		Panels: []plot.Panel{
			success,
			latency("Latency of all", func(p Point) Latency { return p.All }),
			latency("Latency of successes", func(p Point) Latency { return p.Successes }),
			latency("Latency of failures, at least 50 µs", func(p Point) Latency { return p.Failures }),
		},
	}, format)
}

// The styles of a high and a low quantile; lines have the colour of their row.
var solid, dotted = plot.Plain(2, nil), plot.Plain(1.4, plot.Dotted)

// shown returns a latency in seconds, or a gap if there was none.
func shown(l Latency, d time.Duration) float64 {
	if l.Count == 0 {
		return math.NaN()
	}
	return max(d, seen).Seconds()
}

// lines returns a line for each row.
func (r Result) lines(style plot.Style, of func(Point) float64) (lines []plot.Line) {
	for _, row := range Rows() {
		style.Color = plot.Colour(row.colour)
		l := plot.Line{Style: style}
		for _, p := range r.Points {
			if p.Row == row.Name {
				l.Points = append(l.Points, plotter.XY{X: p.Rate, Y: of(p)})
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// DrawSlow writes the slow-down as a picture, in one of plot.Formats.
func (r Result) DrawSlow(w io.Writer, format string) error {
	goodput := plot.Panel{Title: "Goodput, requests per second", Marks: []plot.Mark{{Label: "offered", At: AgreedRate}}}
	latency := plot.Panel{Title: "Latency of successes, P95", Unit: plot.Seconds,
		Marks: []plot.Mark{{Label: fmt.Sprintf("agreed: %v", AgreedP95), At: AgreedP95.Seconds()}}}
	phase := time.Duration(0)
	for _, row := range Rows() {
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
			style := plot.Stroke(plot.Colour(row.colour), solid.Width, solid.Dashes)
			goodput.Add("", style, good)
			latency.Add("", style, late)
		}
	}
	for _, p := range []*plot.Panel{&goodput, &latency} {
		p.Marks = append(p.Marks, plot.Mark{Vertical: true, At: phase.Seconds()}, plot.Mark{Vertical: true, At: 2 * phase.Seconds()})
	}
	return plot.DrawSheet(w, plot.Sheet{
		Title: fmt.Sprintf("%d requests per second, and the upstream takes twice as long from %v to %v", AgreedRate, phase, 2*phase),
		Notes: []string{r.how(), source}, Across: "time", Time: true, Panels: []plot.Panel{goodput, latency},
		Keys: legend(func(row string) bool { return slices.ContainsFunc(r.Slow, func(c Course) bool { return c.Row == row }) }),
	}, format)
}
