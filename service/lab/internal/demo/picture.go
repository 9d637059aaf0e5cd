package demo

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/weir-go/weir/service/lab/internal/plot"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// source is named in pictures.
const source = "github.com/marselester/capacity"

// A series is a line of a picture: a value of each sample, not a number if it has none.
type series struct {
	label string
	style plot.Style
	value func(Sample) float64
}

var (
	good     = plot.Stroke(plot.Blue, 1.8, nil)
	rejected = plot.Stroke(plot.Orange, 1.8, nil)
	tooLate  = plot.Stroke(plot.Red, 1.8, plot.Dashed)
	bound    = plot.Plain(1.2, plot.Dashed)
)

// Draw writes the four panels of the source, over the whole experiment, as a picture in
// one of plot.Formats.
func (r Result) Draw(w io.Writer, format string) error {
	sheet := plot.Sheet{
		Title: r.Title,
		Notes: []string{
			fmt.Sprintf("%v requests per second by %d clients, which give up after %v s; over HTTP on one machine; averages of %d s",
				Source.Rate, Source.Workers, Source.TimeoutSeconds, window),
			fmt.Sprintf("goodput %.2f rps in the second half; %s saw: %s", r.Goodput, source, r.Source),
		},
		Across: "time, seconds",
		Time:   true,
		Panels: []plot.Panel{
			r.panel("Clients: requests per second, by how they ended", plot.Rates, r.statuses()...),
			r.panel("At the origin, and the limit", plot.Rates,
				series{"in flight", good, func(s Sample) float64 { return s.Origin.N }},
				series{"queued", rejected, func(s Sample) float64 { return s.Origin.Queued }},
				series{"limit", plot.Stroke(plot.Ink, 1.2, nil), Sample.limit}),
			r.panel("Origin: finished per second", plot.Rates,
				series{"finished", good, func(s Sample) float64 { return s.Origin.X }},
				series{"in time", plot.Stroke(plot.Green, 1.8, plot.Dotted), func(s Sample) float64 { return s.Goodput }},
				series{"bound", bound, func(s Sample) float64 { return s.Origin.Capacity }}),
			r.panel("Origin: latency", plot.Seconds,
				series{"p50", good, func(s Sample) float64 { return orGap(s.Origin.P50) }},
				series{"p99", rejected, func(s Sample) float64 { return orGap(s.Origin.P99) }},
				series{"client time-out", bound, func(Sample) float64 { return Source.TimeoutSeconds }}),
		},
	}
	return plot.DrawSheet(w, sheet, format)
}

func (r Result) panel(title string, unit plot.Unit, all ...series) plot.Panel {
	p := plot.Panel{Title: title, Unit: unit}
	for _, line := range all {
		points := make(plotter.XYs, len(r.Samples))
		for i, s := range r.Samples {
			points[i].X, points[i].Y = s.At, line.value(s)
		}
		p.Add(line.label, line.style, points)
	}
	return p
}

// statuses returns a series for each status that the client saw.
func (r Result) statuses() (all []series) {
	seen := map[string]bool{}
	for _, s := range r.Samples {
		for status := range s.ByStatus {
			seen[status] = true
		}
	}
	for _, status := range slices.Sorted(maps.Keys(seen)) {
		style := plot.Stroke(plot.Pink, 1.8, plot.Dotted)
		switch {
		case strings.HasPrefix(status, "2"):
			style = good
		case strings.HasPrefix(status, "503"):
			style = rejected
		case status == trace.Timeout:
			style = tooLate
		}
		all = append(all, series{statusLabel(status), style, func(s Sample) float64 { return s.ByStatus[status] }})
	}
	return all
}

func statusLabel(status string) string {
	switch status {
	case "200":
		return "200 in time"
	case trace.Timeout:
		return "client gave up"
	case "504 origin_timeout":
		return "504 proxy gave up"
	case "503 overdue":
		return "503 waited too long"
	}
	return strings.ReplaceAll(status, "_", " ")
}

func (s Sample) limit() float64 {
	if s.Proxy == nil {
		return math.NaN()
	}
	return float64(s.Proxy.Limit)
}

func orGap(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
