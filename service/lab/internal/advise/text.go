package advise

import (
	"fmt"
	"io"
	"strings"

	"github.com/weir-go/weir/service/internal/table"
)

// described are the laws in words.
var described = map[string]string{
	"little":           "Little's law alone: the response time does not grow",
	"workers":          "workers with a queue (M/M/c-like)",
	"pool":             "workers with a queue, behind other work",
	"contention":       "workers that wait for each other",
	"usl":              "Universal Scalability Law",
	"usl with workers": "Universal Scalability Law of a number of workers",
}

// Table writes the advice as text.
func (a *Advice) Table(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line("recording", "%d requests in %s, %d without a record", a.Requests, table.Seconds(a.Length), a.Lost)
	line("knee", "%s%s", a.Knee.of(round, " requests in flight"), a.Knee.between(round))
	line("capacity", "%s%s", a.Capacity.of(round, " requests/s"), a.Capacity.between(round))
	line("alone", "%s%s", a.Alone.text(table.Seconds), a.Alone.between(table.Seconds))
	if c := a.Contention; c.Value != nil && *c.Value > 0 {
		line("contention", "σ %s%s", c.text(small), c.between(small))
	}
	if c := a.Coherence; c.Value != nil && *c.Value > 0 {
		line("coherence", "κ %s%s", c.text(small), c.between(small))
	}
	if a.Law != "" {
		line("law", "%s", described[a.Law])
	}
	if len(a.History) > 1 {
		for _, s := range a.History {
			line("", "from %s to %s: knee %s, capacity %s requests/s", table.Seconds(s.From), table.Seconds(s.To), s.Knee.text(round), s.Capacity.text(round))
		}
	}
	if a.Rejected > 0 {
		line("rejected", "%d requests; %s", a.Rejected, a.served())
	}
	if a.Unwanted > 0 {
		line("wasted", "%d requests, %.1f %% of the time of all work: their callers had left", a.Unwanted, 100*a.WastedShare)
	}
	if r := a.Recommended; r != nil && !r.Feasible {
		b.WriteString("\n" + infeasible + "\n")
	} else if r != nil {
		b.WriteString("\nrecommended\n")
		line("  limit", "%d requests in flight", r.Limit)
		line("  queue", "%d requests, for %s at most", r.Queue, table.Seconds(r.MaxWait))
		line("  time-out", "%s", table.Seconds(r.Timeout))
		line("  retries", "%s", budget(r.RetryBudget))
		line("  instances", "%d, for %s requests/s", r.Instances, round(r.Demand))
	}
	for i, d := range a.Doubts {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(d + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const infeasible = "The objective cannot be met, not even by a request that does not wait: the work itself takes too long."

// served says how many of the rejected requests could have been served.
func (a *Advice) served() string {
	if a.Servable == nil {
		return "how many could have been served is not known"
	}
	return fmt.Sprintf("there was capacity for %.0f %% of them", 100**a.Servable)
}

func budget(share float64) string {
	if share == 0 {
		return "none: the busiest time left no capacity for them"
	}
	return fmt.Sprintf("at most %.0f %% of the requests", 100*share)
}

// text returns the value, or what it is at least, in a format.
func (i Interval) text(format func(float64) string) string {
	switch {
	case i.Value != nil:
		return format(*i.Value)
	case i.Low != nil:
		return "at least " + format(*i.Low)
	case i.High != nil:
		return "at most " + format(*i.High)
	}
	return "not known"
}

// of is text with a unit.
func (i Interval) of(format func(float64) string, unit string) string {
	if i == (Interval{}) {
		unit = ""
	}
	return i.text(format) + unit
}

// bounds returns the bounds, if there is a value.
func (i Interval) bounds(format func(float64) string) string {
	if i.Value == nil {
		return ""
	}
	return format(*i.Low) + " to " + format(*i.High)
}

// between is bounds in parentheses.
func (i Interval) between(format func(float64) string) string {
	if i.Value == nil {
		return ""
	}
	return "  (" + i.bounds(format) + ")"
}

func small(x float64) string { return fmt.Sprintf("%.2g", x) }
