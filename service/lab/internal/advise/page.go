package advise

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/page"
)

// Page returns the advice as a page.
func (a *Advice) Page() (*page.Page, error) {
	p := &page.Page{
		Title:  "weirlab advise: " + filepath.Base(a.file.Name),
		Sub:    fmt.Sprintf("%d requests in %s, %d without a record · from %s", a.Requests, table.Seconds(a.Length), a.Lost, a.file.Epoch.Add(a.records[0].Intended).UTC().Format("2006-01-02 15:04:05 MST")),
		Answer: a.answer(), Facts: a.facts(),
	}
	if a.Cut != "" {
		p.Bad = []string{a.Cut}
	}
	if len(a.Doubts) > 0 {
		p.Parts = append(p.Parts, page.Part{Title: "What the recording cannot tell", Items: a.Doubts})
	}
	if r := a.Recommended; r != nil && r.Feasible {
		p.Parts = append(p.Parts, r.part())
	}
	if err := a.draw(p); err != nil {
		return nil, err
	}
	if len(a.History) > 1 {
		p.Parts = append(p.Parts, a.history())
	}
	if len(a.Errors) > 0 {
		p.Parts = append(p.Parts, a.laws())
	}
	return p, nil
}

// answer says what the advice comes to.
func (a *Advice) answer() (sentences []string) {
	say := func(format string, args ...any) { sentences = append(sentences, fmt.Sprintf(format, args...)) }
	if a.Knee.Value != nil {
		say("The service does %s requests/s at most%s, with %s requests in flight%s: more only wait.", a.Capacity.text(round), a.Capacity.between(round), a.Knee.text(round), a.Knee.between(round))
	} else if a.Capacity.Low != nil {
		say("The capacity of the service is not known: it is %s.", a.Capacity.of(round, " requests/s"))
	} else {
		say("The capacity of the service is not known.")
	}
	for i := 1; i < len(a.History); i++ {
		say("The capacity changed at %s: before, it was %s.", table.Seconds(a.History[i].From), a.History[i-1].Capacity.of(round, " requests/s"))
	}
	if a.Rejected > 0 {
		say("%d requests were rejected; %s.", a.Rejected, a.served())
	}
	if r := a.Recommended; r != nil && r.Feasible {
		say("Recommended: a limit of %d requests in flight, and a queue of %d for %s at most.", r.Limit, r.Queue, table.Seconds(r.MaxWait))
	} else if r != nil {
		say(infeasible)
	}
	return sentences
}

func (a *Advice) facts() []page.Fact {
	fact := func(name string, i Interval, format func(float64) string, unit string) page.Fact {
		return page.Fact{Name: name, Value: i.of(format, unit), Note: i.bounds(format)}
	}
	all := []page.Fact{
		fact("knee", a.Knee, round, " in flight"), fact("capacity now", a.Capacity, round, "/s"), fact("a request alone", a.Alone, table.Seconds, ""),
	}
	if c := a.Contention; c.Value != nil && *c.Value > 0 {
		all = append(all, fact("contention σ", c, small, ""))
	}
	if c := a.Coherence; c.Value != nil && *c.Value > 0 {
		all = append(all, fact("coherence κ", c, small, ""))
	}
	if a.Rejected > 0 {
		all = append(all, page.Fact{Name: "rejected", Value: fmt.Sprintf("%d requests", a.Rejected), Note: a.served()})
	}
	if a.Unwanted > 0 {
		all = append(all, page.Fact{Name: "wasted", Value: fmt.Sprintf("%d requests", a.Unwanted), Note: fmt.Sprintf("%.1f %% of the time of all work: their callers had left", 100*a.WastedShare)})
	}
	return all
}

// part has the settings.
func (r *Recommendation) part() page.Part {
	return page.Part{Title: "Recommended", Table: &page.Table{
		Head: []string{"setting", "value", "why"}, Texts: true,
		Rows: [][]page.Cell{
			page.Row("limit", fmt.Sprintf("%d requests in flight", r.Limit), "the knee, or less if the objective needs it; auto finds it, too"),
			page.Row("queue", fmt.Sprintf("%d requests, for %s at most", r.Queue, table.Seconds(r.MaxWait)), "the time that is left for a wait, and what is served within it"),
			page.Row("time-out", table.Seconds(r.Timeout), "that wait, and twice the 99th percentile of the work"),
			page.Row("retries", budget(r.RetryBudget), "what the busiest time left of the capacity, 10 % at most"),
			page.Row("instances", fmt.Sprintf("%d, for %s requests/s", r.Instances, round(r.Demand)), "the busiest time over what one instance serves"),
		},
	}}
}

// draw adds the plots.
func (a *Advice) draw(p *page.Page) error {
	knee := "The knee is " + a.Knee.of(round, " requests in flight") + a.Knee.between(round) + "."
	law := "Dots: a stretch of time each."
	if len(a.History) > 1 {
		law = "Dots: a stretch of time each, grey before the capacity changed."
	}
	if a.Law != "" {
		law += " Line: " + described[a.Law] + ", with the interval of 95 % around it."
	}
	throughput := "Throughput; the capacity is not known."
	if a.Capacity.Value != nil {
		throughput = "Throughput, and the capacity with its interval of 95 %."
	}
	times := a.timeSheet()
	inflight := "On average."
	if len(times.Panels[1].Lines) > 1 {
		inflight = "On average, and the number with which requests waited for the limit or were rejected."
	}
	type drawing struct{ title, note, words string }
	if a.Fitted() {
		laws := a.lawSheet()
		for i, d := range []drawing{
			{"Throughput over requests in flight", law, "Requests per second over requests in flight. " + knee},
			{"Response time over requests in flight", law, "Time of the work over requests in flight. A request alone takes " + a.Alone.text(table.Seconds) + ". " + knee},
		} {
			if err := p.Draw(d.title, d.note, d.words, laws, i); err != nil {
				return err
			}
		}
	}
	for i, d := range []drawing{
		{"Requests per second", "By the time at which they came.", fmt.Sprintf("Requests per second over time, by what became of them. %d came, %d were rejected.", a.Requests, a.Rejected)},
		{"In flight", inflight, "Requests in flight over time. " + knee},
		{"Latency of the served", "From the intended start.", "Latency of the served requests over time: P50 and P95."},
		{"Capacity", throughput, "Capacity and throughput over time. The capacity at the end is " + a.Capacity.of(round, " requests/s") + a.Capacity.between(round) + "."},
	}[:len(times.Panels)] {
		if err := p.Draw(d.title, d.note, d.words, times, i); err != nil {
			return err
		}
	}
	return nil
}

// history has the capacity of each part.
func (a *Advice) history() page.Part {
	t := page.Table{Head: []string{"from", "to", "knee", "capacity, requests/s"}}
	for _, s := range a.History {
		cell := func(i Interval) page.Cell {
			return page.Cell{Text: i.text(round), Below: i.bounds(round)}
		}
		t.Rows = append(t.Rows, append(page.Row(table.Seconds(s.From), table.Seconds(s.To)), cell(s.Knee), cell(s.Capacity)))
	}
	return page.Part{Title: "History of the capacity", Table: &t}
}

// laws has the error of each law.
func (a *Advice) laws() page.Part {
	t := page.Table{Head: []string{"law", "error", ""}}
	for _, name := range slices.SortedFunc(maps.Keys(a.Errors), func(x, y string) int { return cmp.Compare(a.Errors[x], a.Errors[y]) }) {
		chosen := ""
		if name == a.Law {
			chosen = "taken"
		}
		t.Rows = append(t.Rows, page.Row(described[name], fmt.Sprintf("%.3g", a.Errors[name]), chosen))
	}
	return page.Part{Title: "Laws", Table: &t, Note: "The error is that on windows that the law has not seen. If two are about equal, the simpler one is taken; if windows vary for other reasons, that of the workers that single requests tell."}
}
