package sla

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir/service/internal/lab/plot"
)

// seen is the least latency that a plot shows. Lower ones would take most of a
// logarithmic axis.
const seen = 50 * time.Microsecond

// source is named in pictures.
const source = "after rodaine.com, The X-Files: Controlling Throughput with rate.Limiter (2017)"

// legend returns the keys of the rows that were measured.
func (r Result) legend() (keys []plot.Key) {
	has := map[string]bool{}
	for _, p := range r.Points {
		has[p.Row] = true
	}
	for _, row := range Rows() {
		if has[row.Name] {
			keys = append(keys, plot.Key{Label: row.Name, Colour: row.colour})
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
	quantiles := []plot.Style{{Label: "P50", Dotted: true}, {Label: "P95"}}
	agreed := plot.Mark{Label: fmt.Sprintf("agreed: %d rps, P95 %v", AgreedRate, AgreedP95), Vertical: true, At: AgreedRate}
	bound := plot.Mark{At: AgreedP95.Seconds()}
	latency := func(title string, of func(Point) Latency) plot.Plot {
		p := plot.Plot{Title: title, Unit: plot.Seconds, Keys: quantiles, Marks: []plot.Mark{{Vertical: true, At: AgreedRate}, bound}}
		p.Curves = append(r.curves(true, func(p Point) float64 { return shown(of(p), of(p).P50) }),
			r.curves(false, func(p Point) float64 { return shown(of(p), of(p).P95) })...)
		return p
	}
	return plot.DrawSheet(w, plot.Sheet{
		Title:  "What keeps a service within its agreement",
		Notes:  []string{fmt.Sprintf("a service calls %d workers, %v each, and gives up after %v · %s", Workers, Mean, Timeout, r.how()), source},
		Across: "offered, requests per second", Keys: r.legend(),
		Plots: []plot.Plot{
			{Title: "Success", Unit: plot.Shares, Marks: []plot.Mark{agreed}, Curves: r.curves(false, func(p Point) float64 { return p.Success })},
			latency("Latency of all", func(p Point) Latency { return p.All }),
			latency("Latency of successes", func(p Point) Latency { return p.Successes }),
			latency("Latency of failures, at least 50 µs", func(p Point) Latency { return p.Failures }),
		},
	}, format)
}

// shown returns a latency in seconds, or a gap if there was none.
func shown(l Latency, d time.Duration) float64 {
	if l.Count == 0 {
		return math.NaN()
	}
	return max(d, seen).Seconds()
}

// curves returns a curve for each row.
func (r Result) curves(dotted bool, of func(Point) float64) (curves []plot.Curve) {
	for _, row := range Rows() {
		c := plot.Curve{Colour: row.colour, Dotted: dotted}
		for _, p := range r.Points {
			if p.Row == row.Name {
				c.Points = append(c.Points, plot.XY{X: p.Rate, Y: of(p)})
			}
		}
		if len(c.Points) > 0 {
			curves = append(curves, c)
		}
	}
	return curves
}

// DrawSlow writes the slow-down as a picture, in one of plot.Formats.
func (r Result) DrawSlow(w io.Writer, format string) error {
	goodput := plot.Plot{Title: "Goodput, requests per second", Unit: plot.Rates, Marks: []plot.Mark{{Label: "offered", At: AgreedRate}}}
	latency := plot.Plot{Title: "Latency of successes, P95", Unit: plot.Seconds,
		Marks: []plot.Mark{{Label: fmt.Sprintf("agreed: %v", AgreedP95), At: AgreedP95.Seconds()}}}
	var legend []plot.Key
	phase := time.Duration(0)
	for _, row := range Rows() {
		for _, c := range r.Slow {
			if c.Row != row.Name {
				continue
			}
			phase = c.Phase
			legend = append(legend, plot.Key{Label: row.Name, Colour: row.colour})
			good, late := plot.Curve{Colour: row.colour}, plot.Curve{Colour: row.colour}
			for i, s := range c.Steps {
				at := (time.Duration(i)*c.Step + c.Step/2).Seconds()
				good.Points = append(good.Points, plot.XY{X: at, Y: s.Goodput})
				p95 := math.NaN()
				if s.P95 > 0 {
					p95 = s.P95.Seconds()
				}
				late.Points = append(late.Points, plot.XY{X: at, Y: p95})
			}
			goodput.Curves = append(goodput.Curves, good)
			latency.Curves = append(latency.Curves, late)
		}
	}
	for _, p := range []*plot.Plot{&goodput, &latency} {
		p.Marks = append(p.Marks, plot.Mark{Vertical: true, At: phase.Seconds()}, plot.Mark{Vertical: true, At: 2 * phase.Seconds()})
	}
	return plot.DrawSheet(w, plot.Sheet{
		Title: fmt.Sprintf("%d requests per second, and the upstream takes twice as long from %v to %v", AgreedRate, phase, 2*phase),
		Notes: []string{r.how(), source}, Across: "time, s", Keys: legend, Plots: []plot.Plot{goodput, latency},
	}, format)
}
