package sla

import (
	"fmt"
	"math"
	"slices"
)

// An Agreement compares two results of the same points.
type Agreement struct {
	Points  int
	Success Distance // of shares
	Goodput Distance // of what was offered
	P50     Distance // of successes, of the logarithms: 0.1 is a tenth
	P95     Distance // likewise
}

// A Distance summarizes the differences of one figure.
type Distance struct {
	Median, Most float64
	Row          string // of the largest difference
	Rate         float64
}

// Compare compares the points that two results have in common.
func Compare(a, b Result) Agreement {
	var x, y []Point // the same points of a and of b
	for _, p := range a.Points {
		i := slices.IndexFunc(b.Points, func(q Point) bool { return q.Row == p.Row && q.Rate == p.Rate })
		if i >= 0 {
			x, y = append(x, p), append(y, b.Points[i])
		}
	}
	distance := func(of func(Point) float64) (d Distance) {
		all := make([]float64, len(x))
		for i, p := range x {
			if all[i] = math.Abs(of(p) - of(y[i])); all[i] >= d.Most {
				d.Most, d.Row, d.Rate = all[i], p.Row, p.Rate
			}
		}
		slices.Sort(all)
		if len(all) > 0 {
			d.Median = all[len(all)/2]
		}
		return d
	}
	return Agreement{
		Points:  len(x),
		Success: distance(func(p Point) float64 { return p.Success }),
		Goodput: distance(func(p Point) float64 { return p.Goodput / p.Rate }),
		P50:     distance(func(p Point) float64 { return math.Log(max(p.Successes.P50, 1).Seconds()) }),
		P95:     distance(func(p Point) float64 { return math.Log(max(p.Successes.P95, 1).Seconds()) }),
	}
}

// String describes the Agreement in a few lines.
func (a Agreement) String() string {
	s := fmt.Sprintf("beside the same %d points in virtual time, half and all are within\n", a.Points)
	for _, d := range []struct {
		what string
		Distance
	}{{"success", a.Success}, {"goodput", a.Goodput}, {"p50 of successes", a.P50}, {"p95 of successes", a.P95}} {
		s += fmt.Sprintf("  %-17s %5.1f %% %5.1f %%  (%s at %g)\n", d.what, 100*d.Median, 100*d.Most, d.Row, d.Rate)
	}
	return s
}
