package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/loadsign"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy/proxypage"
	"github.com/weir-go/weir/service/internal/terminal"
)

var proxyHelp = []string{
	"p      pause or resume", "q      quit", "",
	"Rates and times are of the last seconds.",
	"N = X · R is Little's law: in flight = finished/s × time in flight.",
	"In the queue: upper bounds, of admitted requests that did not wait, too.",
	"Rejected: by a limit, with 503. Denied: by a rule, with 429.",
	"The page at this address has plots, and explains requests.",
}

// proxyState renders the condition of the proxy in words and in numbers.
func (v *view) proxyState() []string {
	st := v.proxy
	style := title
	if st.Level == "failing" || st.Level == "degraded" {
		style = denied
	}
	of := func(ms int64) string { return age(time.Duration(st.NowMS-ms) * time.Millisecond) }
	mode := "enforce"
	if st.Shadow {
		mode = "shadow: rejects none"
	}
	facts := []string{terminal.Escape(st.Level) + " for " + of(st.SinceMS), mode, "up " + of(st.StartedMS)}
	if f := st.File; f != nil {
		facts = append(facts, "rules "+terminal.Escape(cmp.Or(f.Hash, "–")), "in force for "+of(f.Loaded.UnixMilli()), "from "+terminal.Escape(f.Path))
	}
	lines := append(v.wrapped(style, terminal.Escape(st.Words)), v.facts(facts)...)
	if f := st.File; f != nil && f.Error != "" {
		ago := "–"
		if f.Failed != nil {
			ago = of(f.Failed.UnixMilli())
		}
		lines = append(lines, v.notLoaded(f.Error, ago)...)
	}
	lines = append(lines, title.Render(law(st)))
	for _, facts := range [][]string{stateNow(st), flow(st), times(st)} {
		lines = append(lines, v.facts(facts)...)
	}
	return lines
}

// law renders Little's law of the last seconds.
func law(st *proxypage.State) string {
	l := &st.Law
	switch {
	case st.WindowMS == 0:
		return "N = X · R: no rates yet"
	case l.MeanMS == nil:
		return fmt.Sprintf("N = X · R: %s in flight, none has finished", digits(l.Inflight))
	}
	return fmt.Sprintf("N = X · R: %s in flight = %s/s × %s", digits(l.Inflight), digits(l.Throughput), span(*l.MeanMS))
}

// stateNow lists the sums over all limits at this instant.
func stateNow(st *proxypage.State) []string {
	t := &st.Total
	set := terminal.Escape(t.Mode)
	if t.Limits > 1 {
		set = fmt.Sprintf("%d classes", t.Limits)
	} else if _, err := strconv.Atoi(t.Mode); err == nil {
		set = "fixed"
	}
	facts := []string{fmt.Sprintf("limit %d (%s)", t.Limit, set), fmt.Sprintf("%d in flight", t.Inflight), highlit(float64(t.Waiting), waiting) + " waiting"}
	if t.LongLived > 0 {
		facts = append(facts, fmt.Sprintf("%d long-lived", t.LongLived))
	}
	if t.Abandoned > 0 {
		facts = append(facts, fmt.Sprintf("%d abandoned", t.Abandoned))
	}
	if p := st.Pressure; p != nil {
		facts = append(facts, fmt.Sprintf("processor waits %.0f of %.0f %%", 100*p.Now, 100*p.Max))
	}
	return facts
}

// flow lists the requests per second of all classes.
func flow(st *proxypage.State) []string {
	f := &st.Flow
	rejected := highlit(f.Rejected, denied) + " rejected/s"
	if why := reasons(f.Reasons); why != "" {
		rejected += " (" + why + ")"
	}
	facts := []string{highlit(f.Requests, plain) + " arriving/s", digits(st.Law.Throughput) + " finished/s", rejected, highlit(f.Denied, denied) + " denied/s"}
	if f.WouldReject > 0 {
		facts = append(facts, "shadow would reject "+number(f.WouldReject)+"/s")
	}
	if f.Wasted != nil && *f.Wasted > 0 {
		facts = append(facts, fmt.Sprintf("%.0f %% wasted", 100**f.Wasted))
	}
	return facts
}

// times lists quantiles of the times in flight and in the queue.
func times(st *proxypage.State) (facts []string) {
	if l := &st.Law; l.P50MS != nil && l.P95MS != nil && l.P99MS != nil {
		facts = append(facts, fmt.Sprintf("time in flight P50 %s, P95 %s, P99 %s", span(*l.P50MS), span(*l.P95MS), span(*l.P99MS)))
	}
	if w := st.Waits; len(w) == 3 {
		facts = append(facts, terminal.Escape(fmt.Sprintf("in the queue P50 %s, P95 %s, P99 %s", w[0], w[1], w[2])))
	}
	return facts
}

// tables renders the classes, the origins and the rules in at most room lines. Rows that reject requests or fail come first.
func (v *view) tables(room int) (lines []string) {
	st := v.proxy
	all := []struct {
		table
		of int // rows, with those beyond the bound of the answer
	}{{classTable(st.Classes), st.AllClasses}, {originTable(st.Origins, st.NowMS), st.AllOrigins}, {ruleTable(st.Rules), st.AllRules}}
	const head, row, more, blank = 1, 1, 1, 1
	rooms, wants := make([]int, len(all)), make([]int, len(all))
	for i := range all {
		if rows := len(all[i].rows); rows > 0 {
			wants[i] = head + rows + blank
		}
		if least := min(wants[i], head+row+more+blank); least <= room {
			rooms[i], room = least, room-least
		}
	}
	for grown := true; grown; { // a line to each in turn
		grown = false
		for i := range all {
			if rooms[i] > 0 && rooms[i] < wants[i] && room > 0 {
				rooms[i], room, grown = rooms[i]+1, room-1, true
			}
		}
	}
	for i := range all {
		if rooms[i] == 0 {
			continue
		}
		t := &all[i]
		if rooms[i] < wants[i] {
			t.rows = t.rows[:rooms[i]-head-more-blank]
		}
		lines = append(lines, t.section(v.width, t.of)...)
	}
	return lines
}

func classTable(classes []proxypage.Class) table {
	t := table{columns: []column{
		{title: "CLASS", rank: 9, most: 24}, {title: "LIMIT", rank: 6}, {title: "IN FLIGHT", number: true, rank: 7},
		{title: "WAITING", number: true, rank: 7}, {title: "ARRIVING/S", number: true, rank: 8}, {title: "REJECTED/S", number: true, rank: 9},
		{title: "DENIED/S", number: true, rank: 4}, {title: "WASTED", number: true, rank: 2}, {title: "WHY", rank: 5, most: 40}, {title: "ROUTES", rank: 1},
	}}
	bad := func(c *proxypage.Class) float64 { return c.PerSecond.Rejected + c.PerSecond.Denied }
	for _, c := range sorted(classes, func(a, b *proxypage.Class) int { return cmp.Compare(bad(b), bad(a)) }) {
		f := &c.PerSecond
		limit, inflight, waits, wasted := "as default", "–", "–", "–"
		if l := c.Limit; l != nil {
			set := l.Limit.String()
			if l.Limit.Fixed() {
				set = "fixed"
			}
			limit, inflight, waits = fmt.Sprintf("%d %s", l.LimitNow, terminal.Escape(set)), strconv.Itoa(l.Exchanges), highlit(float64(l.Waiting), waiting)
		}
		if f.Wasted != nil {
			wasted = fmt.Sprintf("%.0f %%", 100**f.Wasted)
		}
		why := reasons(f.Reasons)
		if f.WouldReject > 0 {
			why = strings.TrimPrefix(why+", would reject "+number(f.WouldReject), ", ")
		}
		t.rows = append(t.rows, []string{
			title.Render(named(c.Name, c.Mode)), limit, inflight, waits, highlit(f.Requests, plain), highlit(f.Rejected, denied),
			highlit(f.Denied, denied), wasted, why, terminal.Escape(strings.Join(c.Routes, ", ")),
		})
	}
	return t
}

func originTable(origins []proxypage.Origin, nowMS int64) table {
	t := table{columns: []column{
		{title: "ORIGIN", rank: 9, most: 48}, {title: "STATE", rank: 8}, {title: "IN FLIGHT", number: true, rank: 7}, {title: "LIMIT", number: true, rank: 5},
		{title: "SERVED/S", number: true, rank: 6}, {title: "RETRIED", number: true, rank: 3}, {title: "OTHER ANSWERS/S", rank: 4},
	}}
	bad := func(o *proxypage.Origin) (n float64) {
		for sign, rate := range o.PerSecond {
			if sign != served {
				n += rate
			}
		}
		return n
	}
	out := func(o *proxypage.Origin) int {
		if o.State != "in" {
			return 1
		}
		return 0
	}
	order := func(a, b *proxypage.Origin) int {
		return cmp.Or(cmp.Compare(out(b), out(a)), cmp.Compare(bad(b), bad(a)))
	}
	for _, o := range sorted(origins, order) {
		state, limit := plain.Render(terminal.Escape(o.State)), "–"
		if out(&o) == 1 {
			text := strings.TrimSpace(o.State + " " + o.Cause)
			if left := o.UntilMS - nowMS; left > 0 {
				text += " for " + operator.Span(time.Duration(left)*time.Millisecond)
			}
			state = denied.Render(terminal.Escape(text))
		}
		if o.Limit > 0 {
			limit = strconv.Itoa(o.Limit)
		}
		others := maps.Clone(o.PerSecond)
		delete(others, served)
		t.rows = append(t.rows, []string{
			title.Render(terminal.Escape(o.URL)), state, strconv.Itoa(o.Inflight), limit, highlit(o.PerSecond[served], plain),
			strconv.FormatUint(o.Retried, 10), reasons(others),
		})
	}
	return t
}

// served is the sign of load of an answer that shows none.
var served = loadsign.Served.String()

func ruleTable(rules []proxypage.Rule) table {
	t := table{columns: []column{
		{title: "RULE", rank: 9, most: 24}, {title: "QUOTA", rank: 3}, {title: "ALLOWED/S", number: true, rank: 7}, {title: "DENIED/S", number: true, rank: 8},
		{title: "WOULD DENY/S", number: true, rank: 2}, {title: "KEY", rank: 4, most: 40}, {title: "ROUTES", rank: 1},
	}}
	order := func(a, b *proxypage.Rule) int {
		return cmp.Or(cmp.Compare(b.DeniedRate, a.DeniedRate), cmp.Compare(b.WouldDenyRate, a.WouldDenyRate))
	}
	for _, r := range sorted(rules, order) {
		quota := fmt.Sprintf("%s burst %d", r.Rate, r.Burst)
		if r.Limit > 0 {
			quota = fmt.Sprintf("%d in flight", r.Limit)
		}
		t.rows = append(t.rows, []string{
			title.Render(named(r.Name, r.Mode)), terminal.Escape(quota), highlit(r.AllowedRate, plain), highlit(r.DeniedRate, denied),
			highlit(r.WouldDenyRate, plain), terminal.Escape(cmp.Or(strings.Join(r.By, ", or "), "all requests")), terminal.Escape(strings.Join(r.Routes, ", ")),
		})
	}
	return t
}

// sorted returns the rows in an order; equal ones stay in that of the file.
func sorted[T any](rows []T, order func(a, b *T) int) []T {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b T) int { return order(&a, &b) })
	return rows
}
