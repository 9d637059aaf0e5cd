package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/terminal"
)

// A view is the state that a frame shows.
type view struct {
	reading
	width, height int  // of the screen; 0 means unlimited
	live          bool // the user can press keys

	now, heard time.Time // when the frame was made, and when the last answer came (zero: never)
	err        error     // of the last request
	paused     bool

	mode   mode
	input  string        // the key to explain
	answer *explainedMsg // about it; nil until it comes
}

// A mode selects the content below the rules.
type mode int

const (
	keys      mode = iota
	asking         // keys, and a prompt for a key to explain
	explained      // the explanation of a key
	help
)

// Styles that highlight words. The colors are from the terminal's palette, which suits
// its background.
var (
	plain   lipgloss.Style
	title   = lipgloss.NewStyle().Bold(true)
	denied  = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
	waiting = lipgloss.NewStyle().Foreground(lipgloss.Magenta)
	alarm   = lipgloss.NewStyle().Bold(true).Reverse(true).Foreground(lipgloss.Red)
	faint   = lipgloss.NewStyle().Faint(true)
)

// leastRoom is the number of lines below which the rules leave none for keys.
const leastRoom = 8

// frame renders a view as lines that fit the screen.
func frame(v *view) []string {
	lines := v.head()
	foot := v.foot()
	room := max(v.height-len(lines)-len(foot), 0)
	if v.height == 0 {
		room = 1 << 20
	}
	if v.proxy != nil && v.mode != help {
		lines = append(lines, v.tables(room)...)
	} else if v.proxy == nil && v.known() {
		var below []string
		if room >= leastRoom || v.mode > asking {
			below = v.below(room / 2)
		}
		rules := v.rules(room - len(below))
		if below != nil && v.mode <= asking {
			below = v.below(room - len(rules)) // the lines that the rules leave
		}
		lines = append(append(lines, rules...), below...)
	} else if v.mode == help {
		lines = append(lines, v.below(room)...)
	}
	if v.height > 0 {
		lines = lines[:min(len(lines), max(v.height-len(foot), 0))]
		for len(lines)+len(foot) < v.height {
			lines = append(lines, "")
		}
	}
	lines = append(lines, foot...)
	for i := range lines {
		if v.width > 0 {
			lines[i] = ansi.Truncate(lines[i], v.width, "…")
		}
	}
	return lines
}

// head renders what process it is, whether it answers, and its state.
func (v *view) head() []string {
	name := "weir top"
	if v.proxy != nil {
		name = "weir proxy"
	} else if v.known() {
		name = "weir serve"
	}
	lines := []string{title.Render(name + "  " + terminal.Escape(v.url))}
	if v.paused {
		lines[0] += alarm.Render("  paused: p resumes  ")
	}
	if v.err != nil {
		text := "no answer: " + terminal.Escape(v.err.Error()) + "; trying again"
		if v.known() {
			text += fmt.Sprintf(". The rest is %s old", age(v.now.Sub(v.heard)))
		}
		lines = append(lines, v.wrapped(alarm, text)...)
	}
	switch {
	case v.proxy != nil:
		return append(append(lines, v.proxyState()...), "")
	case v.known():
		return append(append(lines, v.serveState()...), "")
	case v.err == nil:
		return append(lines, "connecting…")
	}
	return lines
}

// serveState renders how much the server refuses, and which rules are in force.
func (v *view) serveState() []string {
	c, t := &v.status.Config, &v.status.Total
	f := &t.PerSecond
	of := func(ms int64) string { return age(time.Duration(v.status.NowMS-ms) * time.Millisecond) }
	lines := []string{
		fmt.Sprintf("%s requests/s  %s denied/s  %d waiting  %d leases",
			number(f.Allowed+f.Denied+f.Leased+f.Refused), number(f.Denied+f.Refused), t.Waiting, t.Leases),
		fmt.Sprintf("rules %s  in force for %s  from %s  up %s",
			terminal.Escape(cmp.Or(c.Hash, "–")), of(c.LoadedMS),
			terminal.Escape(cmp.Or(c.Path, "no file")), of(v.status.StartedMS)),
	}
	lines = append(lines, v.fleet()...)
	lines = append(lines, v.wrapped(title, terminal.Escape(v.status.Words))...)
	if c.Error != "" {
		lines = append(lines, v.notLoaded(c.Error, of(c.FailureMS))...)
	}
	if !v.status.Ready {
		lines = append(lines, v.wrapped(alarm, "not ready: "+terminal.Escape(v.status.NotReady))...)
	}
	return lines
}

// notLoaded renders the error of the last reload.
func (v *view) notLoaded(problem, ago string) []string {
	lines := v.wrapped(alarm, fmt.Sprintf("the last reload failed %s ago; the rules before it are in force:", ago))
	details := strings.Split(problem, "\n")
	for _, line := range details[:min(len(details), 6)] {
		lines = append(lines, "  "+terminal.Escape(line))
	}
	return lines
}

// rules renders the table of rules in at most room lines. Rules that refuse most come
// first.
func (v *view) rules(room int) []string {
	rules := slices.Clone(v.status.Rules)
	slices.SortStableFunc(rules, func(a, b adminapi.RuleStatus) int {
		x, y := &a.PerSecond, &b.PerSecond
		return cmp.Or(cmp.Compare(y.Denied+y.Refused, x.Denied+x.Refused), cmp.Compare(b.Waiting, a.Waiting))
	})
	shown := rules
	if head, blank, more := 1, 1, 1; len(rules) > room-head-blank {
		shown = rules[:max(room-head-blank-more, 0)]
	}
	t := table{columns: []column{
		{title: "RULE", rank: 9, most: 24}, {title: "QUOTA", rank: 2}, {title: "ALLOWED/S", number: true, rank: 8},
		{title: "DENIED/S", number: true, rank: 9}, {title: "WAITING", number: true, rank: 7},
		{title: "P95", number: true, rank: 4}, {title: "LEASES", number: true, rank: 3}, {title: "WHY", rank: 6},
	}}
	for i := range shown {
		t.rows = append(t.rows, ruleCells(&shown[i]))
	}
	return t.section(v.width, v.status.RulesInForce)
}

func ruleCells(r *adminapi.RuleStatus) []string {
	f := &r.PerSecond
	p95, leases := "–", "–"
	if r.WaitP95MS != nil {
		p95 = wait(*r.WaitP95MS)
	}
	if l := r.Leases; l != nil {
		limit := terminal.Escape(l.Limit)
		if r.Per == "key" {
			limit = fmt.Sprintf("%d×%s", l.Keys, limit)
		}
		leases = fmt.Sprintf("%d of %s", l.Held, limit)
	}
	return []string{
		title.Render(named(r.Name, r.Mode)), terminal.Escape(cmp.Or(r.Quota, "–")), highlit(f.Allowed, plain),
		highlit(f.Denied+f.Refused, denied), highlit(float64(r.Waiting), waiting), p95, leases, why(r),
	}
}

func named(name, mode string) string {
	if mode != "enforce" {
		name += " (" + mode + ")"
	}
	return terminal.Escape(name)
}

// why lists the reasons for which a rule refuses, and what rules on trial would deny.
func why(r *adminapi.RuleStatus) string {
	f := &r.PerSecond
	var parts []string
	if text := reasons(f.Reasons); text != "" {
		parts = append(parts, text)
	}
	if f.Refused > 0 {
		parts = append(parts, "leases "+number(f.Refused))
	}
	if f.Shadowed > 0 {
		parts = append(parts, "would deny "+number(f.Shadowed))
	}
	if r.Candidate != "" {
		parts = append(parts, fmt.Sprintf("candidate %s denies %s", terminal.Escape(r.Candidate), number(f.TrialDenied)))
	}
	return strings.Join(parts, ", ")
}

// reasons lists rates by reason, the highest first.
func reasons(rates map[string]float64) string {
	var parts []string
	for _, reason := range slices.SortedFunc(maps.Keys(rates), func(a, b string) int {
		return cmp.Or(cmp.Compare(rates[b], rates[a]), cmp.Compare(a, b))
	}) {
		parts = append(parts, terminal.Escape(reason)+" "+number(rates[reason]))
	}
	return strings.Join(parts, ", ")
}

// below renders the part below the rules in at most room lines.
func (v *view) below(room int) []string {
	switch v.mode {
	case explained:
		return v.explained()
	case help:
		if v.proxy != nil {
			return proxyHelp
		}
		return []string{
			"d, r   keys with most denials, or with most requests",
			"e, /   explain a key: would its next request be allowed, and why",
			"p      pause or resume", "q      quit", "",
			"Rates are of the last seconds; refused leases count as denied.", "P95: the wait of requests that queued.",
			"LEASES: units held, of the number of keys × the limit per key.",
		}
	}
	heading := "KEY (most denials)"
	if v.top.By == "requests" {
		heading = "KEY (most requests)"
	}
	t := table{columns: []column{
		{title: "DENIED/S", number: true, rank: 8}, {title: "ALLOWED/S", number: true, rank: 6}, {title: "DENIED", number: true, rank: 3},
		{title: "WAITING", number: true, rank: 4}, {title: "RULE", rank: 5, most: 24}, {title: heading, rank: 9},
	}}
	for i := range v.top.Keys[:min(len(v.top.Keys), max(room-1, 0))] {
		t.rows = append(t.rows, v.keyCells(&v.top.Keys[i]))
	}
	lines := t.render(v.width)
	if len(v.top.Keys) == 0 {
		lines = append(lines, faint.Render("none"))
	}
	return lines
}

func (v *view) keyCells(k *adminapi.Key) []string {
	refused, allowed := highlit(k.DeniedPerSecond+k.LeaseRefusedPerSecond, denied), highlit(k.AllowedPerSecond, plain)
	if v.top.WindowMS == 0 {
		refused, allowed = faint.Render("…"), faint.Render("…")
	}
	return []string{
		refused, allowed, strconv.FormatUint(k.Denied+k.LeaseRefused, 10), highlit(float64(k.Waiting), waiting),
		terminal.Escape(strings.Join(k.Rules, ", ")), terminal.Escape(k.Key),
	}
}

// explained renders the explanation of a key.
func (v *view) explained() []string {
	switch {
	case v.answer == nil:
		return []string{"explaining " + terminal.Escape(v.input) + "…"}
	case v.answer.err != nil:
		return []string{terminal.Escape(v.input), terminal.Escape(v.answer.err.Error())}
	}
	x := &v.answer.Explanation
	lines := []string{title.Render(terminal.Escape(x.Key))}
	style := title
	if !x.Allowed {
		style = denied
	}
	lines = append(lines, v.wrapped(style, terminal.Escape(x.Words))...)
	for i := range x.Rules {
		r := &x.Rules[i]
		lines = append(lines, fmt.Sprintf("%d. %s (%s %s)", i+1, terminal.Escape(r.Name), terminal.Escape(r.Kind), terminal.Escape(r.Pattern)))
		for _, line := range v.wrapped(plain, terminal.Escape(r.Words)) {
			lines = append(lines, "   "+line)
		}
	}
	return lines
}

// foot renders the list of keys to press, or the prompt.
func (v *view) foot() []string {
	switch {
	case !v.live:
		return nil
	case v.mode == asking:
		prompt, text := "key to explain: ", terminal.Escape(v.input)
		// The cursor is at the end, so the end stays visible.
		if hidden := lipgloss.Width(prompt+text) - v.width + 1; v.width > 0 && hidden > 0 {
			text = ansi.TruncateLeft(text, hidden, "")
		}
		return []string{prompt + text + "█"}
	case v.proxy != nil && v.mode == help:
		return []string{faint.Render("esc back  q quit")}
	case v.proxy != nil:
		return []string{faint.Render("q quit  p pause  ? help")}
	case v.mode == explained, v.mode == help:
		return []string{faint.Render("esc back  e another key  q quit")}
	}
	return []string{faint.Render("q quit  d denied  r requests  e explain a key  p pause  ? help")}
}
