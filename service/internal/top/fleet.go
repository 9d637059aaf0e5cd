package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/terminal"
)

// fleet renders the store, the upstream, the leaves and the peers: a line for each.
func (v *view) fleet() (lines []string) {
	line := func(bad bool, format string, args ...any) {
		style := plain
		if bad {
			style = denied
		}
		lines = append(lines, style.Render(fmt.Sprintf(format, args...)))
	}
	if s := v.status.Store; s != nil {
		line(s.Away, "store %s  %d instances  %s", answers(s.Away), s.Instances, steps(s.Decisions))
	}
	if u := v.status.Upstream; u != nil {
		line(u.Away, "upstream %s  %s  %d of %d keys assigned  %d leaves  %s",
			terminal.Escape(cmp.Or(u.URL, "–")), answers(u.Away), u.Assigned, u.Keys, u.Leaves, steps(u.Decisions))
		if u.Error != "" {
			lines = append(lines, v.wrapped(denied, "  "+terminal.Escape(u.Error))...)
		}
	}
	if t := &v.status.Total; t.Leaves > 0 {
		line(false, "leaves %d  %d assignments", t.Leaves, t.Assignments)
	}
	if p := v.status.Peers; p != nil {
		lines = append(lines, v.peers(p)...)
	}
	return lines
}

// maxAbsent bounds the members that are listed because they are not live, or have other rules or another list.
const maxAbsent = 5

// peers renders the number of members by status, and the members that need attention.
func (v *view) peers(p *adminapi.PeersState) []string {
	rules, count := "", map[string]int{}
	for _, m := range p.Members {
		if count[m.Status]++; m.Name == p.Self {
			rules = m.Rules
		}
	}
	var parts, notes []string
	for _, status := range []string{"live", "cut", "dead", "left", "alias"} {
		if n := count[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	style, quorum := plain, ""
	if !p.Quorum {
		style, quorum = denied, "  no quorum"
	}
	for _, m := range p.Members {
		var note []string
		if m.Error != "" {
			note = append(note, terminal.Escape(m.Error))
		}
		if m.Status == "live" && m.Error == "" && m.Rules != "" && rules != "" && m.Rules != rules {
			note = append(note, "other rules: "+terminal.Escape(m.Rules))
		}
		if len(m.OnlyHere)+len(m.OnlyThere) > 0 {
			note = append(note, "another list of peers")
		}
		if note != nil || m.Status != "live" {
			notes = append(notes, strings.TrimSpace(fmt.Sprintf("%s %s  %s", terminal.Escape(m.Name), terminal.Escape(m.Status), strings.Join(note, ", "))))
		}
	}
	lines := []string{style.Render(fmt.Sprintf("peers %s%s  %s", strings.Join(parts, ", "), quorum, steps(p.Decisions)))}
	for _, n := range notes[:min(len(notes), maxAbsent)] {
		lines = append(lines, v.wrapped(plain, "  "+n)...)
	}
	if rest := len(notes) - maxAbsent; rest > 0 {
		lines = append(lines, faint.Render(fmt.Sprintf("  %d more", rest)))
	}
	return lines
}

func answers(away bool) string {
	if away {
		return "away"
	}
	return "answers"
}

// steps lists decisions by the step on which they are based.
func steps(decisions map[string]uint64) string {
	var parts []string
	for _, step := range slices.Sorted(maps.Keys(decisions)) {
		if n := decisions[step]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", terminal.Escape(step), n))
		}
	}
	if parts == nil {
		return "no decisions"
	}
	return strings.Join(parts, ", ")
}
