package incident

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/weir-go/weir/service/internal/table"
)

// described are the causes in words.
var described = map[Cause]string{
	None:         "none begins within the recording",
	Slow:         "slow dependency: work takes longer, with as many requests at work as before",
	LostCapacity: "lost capacity: fewer requests are worked on at a time, and each takes as long as before",
	RetryStorm:   "retry storm: callers repeat requests that were not served, and so keep others from being served",
	BadOrigin:    "bad origin: one origin fails or is slow, and the others are as before",
	HeavyRoute:   "heavy route: the work of its requests is much more than that of others",
	Demand:       "demand: more requests come than before, so they take longer or are not served",
	Unknown:      "unknown: fewer requests are served, and no known cause explains it",
}

// Table writes what happened as text.
func (i *Incident) Table(w io.Writer) error {
	out := bufio.NewWriter(w)
	i.write(out, "incident")
	for _, other := range i.Others {
		fmt.Fprintln(out)
		other.write(out, "another")
	}
	return out.Flush()
}

func (i *Incident) write(out io.Writer, title string) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line(title, "%s", described[i.Cause])
	for _, also := range i.Also {
		line("  or", "%s", described[also])
	}
	if i.Class != "" {
		line("  class", "%s", i.Class)
	}
	if i.Origin != 0 {
		line("  origin", "%d", i.Origin)
	}
	if i.Began != nil {
		line("  began", "%s", i.when())
	}
	if s := i.Setting; s != nil {
		line("  setting", "%s", s)
	}
	if len(i.Evidence) > 0 {
		fmt.Fprintln(out)
		table.Write(out, append([][]string{evidenceHead}, i.evidence()...), 0)
	}
	for k, d := range i.Doubts {
		if k == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, d)
	}
}

var evidenceHead = []string{"", "before", "during", "by chance"}

// evidence returns the rows of a table.
func (i *Incident) evidence() (rows [][]string) {
	for _, e := range i.Evidence {
		rows = append(rows, []string{e.What, e.Unit.format(e.Before), e.Unit.format(e.After), chance(e.Chance)})
	}
	return rows
}

// when says when the incident began and ended.
func (i *Incident) when() string {
	ended := "; it went on to the end"
	if i.Ended != nil {
		ended = "; over at " + table.Seconds(*i.Ended)
	}
	return fmt.Sprintf("%s into the recording (%s to %s), at %s%s", table.Seconds(*i.Began), table.Seconds(*i.Low), table.Seconds(*i.High), i.At.UTC().Format("2006-01-02 15:04:05.0 UTC"), ended)
}

// String describes the setting, and what it does.
func (s *Setting) String() string {
	if s.Origin != 0 {
		if s.Limit == "0" {
			return fmt.Sprintf("take origin %d out", s.Origin)
		}
		return "limit " + s.Limit + " of each origin: requests go where there is a place"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "limit %s", s.Limit)
	if s.Queue != nil {
		fmt.Fprintf(&b, ", queue %d", *s.Queue)
	}
	if s.MaxWait != nil {
		fmt.Fprintf(&b, ", for %s at most", table.Seconds(*s.MaxWait))
	}
	if s.RetryBudget != nil {
		fmt.Fprintf(&b, ", retries at most %.0f %%", 100**s.RetryBudget)
	}
	if s.Class != "" {
		fmt.Fprintf(&b, ", of the class %s", s.Class)
	}
	switch {
	case s.Could == nil || *s.Could == 0:
	case s.InForce:
		fmt.Fprintf(&b, ", which was in force, and no other serves more: %.0f requests, %.0f %% of what could be served", *s.Happened, 100**s.Happened / *s.Could)
	default:
		fmt.Fprintf(&b, ": serves %.0f requests instead of %.0f, %.0f %% of what could be served", *s.Served, *s.Happened, 100**s.Served / *s.Could)
	}
	return b.String()
}

// format returns a quantity as text.
func (u Unit) format(x float64) string {
	switch u {
	case PerSecond:
		return number(x) + "/s"
	case Seconds:
		return table.Seconds(x)
	case Share:
		return fmt.Sprintf("%.3g %%", 100*x)
	default:
		return number(x)
	}
}

func number(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// chance formats a probability.
func chance(p float64) string {
	const least = 1e-6 // what is left out is more likely than less
	switch {
	case p < least:
		return "< 1e-6"
	case p < 0.001:
		return fmt.Sprintf("%.0e", p)
	default:
		return fmt.Sprintf("%.2g", p)
	}
}
