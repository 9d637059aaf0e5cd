package report

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"github.com/weir-go/weir/service/internal/table"
)

// A Comparison has the figures of two runs side by side.
type Comparison struct {
	Before  Run      `json:"before"`
	After   Run      `json:"after"`
	Figures []Figure `json:"figures"`
}

// A Run names a Report of a Comparison.
type Run struct {
	Name   string `json:"name"`
	Report Report `json:"-"`
}

// A Figure of two runs. It is worse or better if the difference is larger than the noise
// within the runs; the others are neither.
type Figure struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"` // rps, seconds or share
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
	Change  float64 `json:"change"` // of Before: 0.1 is a tenth more. Of a share the difference. 0 if it is not a number
	Verdict string  `json:"verdict"`
}

// Verdicts of a Figure.
const (
	Better  = "better"
	Worse   = "worse"
	Same    = "same"    // within the noise
	Unknown = "unknown" // too few requests, or slots of time, to tell the noise
)

// z is the number of standard errors of a 95 % interval.
const z = 1.96

// Compare compares two runs.
func Compare(before, after Run) Comparison {
	c := Comparison{Before: before, After: after}
	a, b := before.Report, after.Report
	c.rate("offered", a.Offered, b.Offered, interval{}, interval{})
	c.rate("throughput", a.Throughput, b.Throughput, a.throughput(), b.throughput())
	c.rate("goodput", a.Goodput, b.Goodput, interval{}, interval{})
	c.add(Figure{Name: "failed", Unit: "share", Before: a.FailedShare, After: b.FailedShare}, a.failures(), b.failures(), false)
	if a.Latency.Successes == nil || b.Latency.Successes == nil {
		return c
	}
	c.add(Figure{Name: "mean", Unit: "seconds", Before: a.Latency.Successes.Mean, After: b.Latency.Successes.Mean},
		a.Latency.Successes.mean(), b.Latency.Successes.mean(), false)
	for _, p := range percentiles {
		x, y := a.Latency.Successes, b.Latency.Successes
		if x.known(p) && y.known(p) {
			c.add(Figure{Name: "p" + decimal(p), Unit: "seconds", Before: x.At(p), After: y.At(p)}, x.percentile(p), y.percentile(p), false)
		}
	}
	c.add(Figure{Name: "max", Unit: "seconds", Before: a.Latency.Successes.Max, After: b.Latency.Successes.Max}, interval{}, interval{}, false)
	return c
}

// An interval contains the true figure of a run with a probability of 95 %, if requests
// are independent. The zero interval is unknown.
type interval struct{ low, high float64 }

func (c *Comparison) rate(name string, before, after float64, x, y interval) {
	c.add(Figure{Name: name, Unit: "rps", Before: before, After: after}, x, y, true)
}

// add adds a figure with its change and verdict.
func (c *Comparison) add(f Figure, before, after interval, moreIsBetter bool) {
	switch {
	case f.Unit == "share":
		f.Change = f.After - f.Before
	case f.Before > 0:
		f.Change = f.After/f.Before - 1
	}
	switch {
	case before == interval{} || after == interval{}:
		f.Verdict = Unknown
	case after.low <= before.high && before.low <= after.high:
		f.Verdict = Same
	case (f.After > f.Before) == moreIsBetter:
		f.Verdict = Better
	default:
		f.Verdict = Worse
	}
	c.Figures = append(c.Figures, f)
}

// throughput estimates the noise from the variation between the slots of the series. The
// first one has fewer answers than requests, and the last one can be shorter.
func (r Report) throughput() interval {
	if len(r.Series) < 7 {
		return interval{}
	}
	n, sum, squares := 0.0, 0.0, 0.0
	for _, s := range r.Series[1 : len(r.Series)-1] {
		n++
		sum += s.Succeeded
		squares += s.Succeeded * s.Succeeded
	}
	variance := max(squares/n-sum/n*sum/n, 0) * n / (n - 1)
	margin := z * math.Sqrt(variance/n)
	return interval{r.Throughput - margin, r.Throughput + margin}
}

// failures is Wilson's interval of a share.
func (r Report) failures() interval {
	n, p := float64(r.Requests), r.FailedShare
	if n == 0 {
		return interval{}
	}
	centre, margin := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return interval{(centre - margin) / (1 + z*z/n), (centre + margin) / (1 + z*z/n)}
}

func (l *Latency) mean() interval {
	if l.Count < 2 {
		return interval{}
	}
	margin := z * l.histogram.StdDev() / 1e6 / math.Sqrt(float64(l.Count))
	return interval{l.Mean - margin, l.Mean + margin}
}

// percentile is the interval between two ranks: the number of latencies below a
// percentile is binomial.
func (l *Latency) percentile(p float64) interval {
	n, q := float64(l.Count), p/100
	margin := z * math.Sqrt(n*q*(1-q))
	low, high := n*q-margin, n*q+margin
	if low < 1 || high > n {
		return interval{}
	}
	// A bucket of the histogram is a thousandth wide.
	return interval{l.At(100*low/n) * (1 - precision), l.At(100*high/n) * (1 + precision)}
}

// Regressions returns the figures that are worse by more than a share.
func (c Comparison) Regressions(most float64) (worse []string) {
	for _, f := range c.Figures {
		if f.Verdict == Worse && math.Abs(f.Change) > most {
			worse = append(worse, fmt.Sprintf("%s: %s instead of %s: %s", f.Name, f.value(f.After), f.value(f.Before), f.change()))
		}
	}
	return worse
}

func (f Figure) value(v float64) string {
	switch f.Unit {
	case "share":
		return percent(v)
	case "seconds":
		return table.Seconds(v)
	default:
		return table.Fixed(v, 2) + " rps"
	}
}

func (f Figure) change() string {
	switch {
	case f.Unit == "share":
		return fmt.Sprintf("%+.2f points", 100*f.Change)
	case f.Before == 0 && f.After != 0:
		return "–"
	default:
		return fmt.Sprintf("%+.1f %%", 100*f.Change)
	}
}

// note explains the verdict of a table.
func (f Figure) note() string {
	switch f.Verdict {
	case Same:
		return "~"
	case Unknown:
		return ""
	default:
		return f.Verdict
	}
}

// Table writes the comparison as text.
func (c Comparison) Table(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "A  %s  %s\nB  %s  %s\n\n", c.Before.Name, c.Before.Report.about(), c.After.Name, c.After.Report.about())
	rows := [][]string{{"", "A", "B", "change", ""}}
	for _, f := range c.Figures {
		rows = append(rows, []string{f.Name, f.value(f.Before), f.value(f.After), f.change(), f.note()})
	}
	table.Write(w, rows, 0, 4)
	fmt.Fprintln(w, "\n~  within the noise of the two runs (95 %, if requests are independent); no sign: too few requests to tell, or no noise to compare with")
	return w.Flush()
}

// about describes a run in a line.
func (r Report) about() string {
	s := r.Target
	if r.Load != "" {
		s += ", " + r.Load
	}
	return fmt.Sprintf("%s: %d requests in %.1f s", s, r.Requests, r.Elapsed)
}
