package rulecheck

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/terminal"
)

// patternOf returns a pattern of the rules by its number in match.Partial.
func patternOf(file *config.Rules, number, requests int) Pattern {
	if file.Descriptors != nil {
		return Pattern{Pattern: strconv.Quote(file.Descriptors.Texts()[number]), Requests: requests}
	}
	for i := range file.Rules {
		r := &file.Rules[i]
		if r.Mode == config.Off {
			continue
		}
		if number == 0 {
			kind, text := r.Pattern()
			return Pattern{r.Name, kind + " " + strconv.Quote(text), requests}
		}
		number--
	}
	return Pattern{Requests: requests}
}

// warnings tells where the answer differs from what would have been.
func (p *player) warnings() (all []string) {
	add := func(n uint64, format string, args ...any) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	for _, path := range p.cut {
		add(1, "%s is cut off or damaged: it is read up to there", path)
	}
	if len(p.items) > 0 {
		span := p.result.To.Sub(p.result.From)
		long := 0
		for _, r := range p.server.Set().Rules {
			if r.Rated() && r.Rate.Period > span {
				long++
			}
		}
		add(uint64(long), "the recording is shorter than the period of %d rules: all buckets are full at its start, so they deny less than they would have", long)
	}
	c := p.counters
	add(c.Lost, "%d decisions were lost, because more came than could be written", c.Lost)
	add(c.Failed, "%d requests ended without a decision, such as because the caller left the queue; they are not replayed", c.Failed)
	add(c.Leases, "%d requests for leases are not recorded", c.Leases)
	add(c.LeafUsed, "%d tokens that leaves used are not recorded", c.LeafUsed)
	add(uint64(p.waited), "%d requests would have waited; their order in the queue is not replayed", p.waited)
	add(uint64(p.keyless), "%d requests have no key", p.keyless)
	add(uint64(p.untermed), "%d requests brought a quota or a limit that is not recorded", p.untermed)
	if p.salts > 1 {
		add(1, "the files have %d salts: a key counts as another one under each, unless the rules or --known-keys name it; give weir serve --decisions-salt-file", p.salts)
	}
	return all
}

// Print writes the result as text.
func (a *Against) Print(w io.Writer) error {
	var b strings.Builder
	if a.Requests+a.Unknown.Requests == 0 {
		b.WriteString("no requests are recorded\n")
	} else {
		fmt.Fprintf(&b, "%d requests of %d keys, from %s, in %v\n\n", a.Requests+a.Unknown.Requests, a.Keys, a.From.UTC().Format(time.RFC3339), a.To.Sub(a.From).Round(time.Millisecond))
	}
	all := a.Requests
	share := func(n int) string {
		if all == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(all))
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		text := make([]string, len(cells))
		for i, cell := range cells {
			text[i] = fmt.Sprint(cell)
		}
		fmt.Fprintln(table, strings.Join(text, "\t")+"\t")
	}
	row("denied then", a.Denied.Then, share(a.Denied.Then))
	row("would be denied", a.Denied.Now, share(a.Denied.Now))
	row("more", a.More, share(a.More))
	row("less", a.Less, share(a.Less))
	_ = table.Flush() // a strings.Builder has no errors
	if u := a.Unknown; u.Requests > 0 {
		fmt.Fprintf(&b, "\nnot known: %d requests of %d keys (%.2f %%)\n", u.Requests, u.Keys, 100*float64(u.Requests)/float64(all+u.Requests))
		for _, p := range u.Patterns[:min(len(u.Patterns), maxTop)] {
			fmt.Fprintf(&b, "  %s %s: %d requests: it depends on a part of a segment. Keys in --known-keys settle it\n", terminal.Escape(p.Rule), terminal.Escape(p.Pattern), p.Requests)
		}
	}
	table.Init(&b, 0, 0, 2, ' ', 0)
	if len(a.Rules) > 0 {
		b.WriteString("\n")
		row("rule", "denied then", "would deny")
		for _, r := range a.Rules[:min(len(a.Rules), maxTop)] {
			row(terminal.Escape(r.Rule), r.Denied.Then, r.Denied.Now)
		}
		_ = table.Flush()
	}
	if len(a.Top) > 0 {
		b.WriteString("\n")
		row("key", "requests", "denied then", "would be denied", "more", "less")
		for _, k := range a.Top {
			row(terminal.Escape(k.Key), k.Requests, k.Denied.Then, k.Denied.Now, k.More, k.Less)
		}
		_ = table.Flush()
	}
	for _, warning := range a.Warnings {
		b.WriteString("\n" + terminal.Escape(warning))
	}
	if len(a.Warnings) > 0 {
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
