package adminapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// summary says in a sentence how many are refused, by which rules and why.
func summary(st *Status) string {
	f := &st.Total.PerSecond
	refused, asked := f.Denied+f.Refused, f.Allowed+f.Denied+f.Leased+f.Refused
	switch {
	case st.WindowMS == 0:
		return "Counting has just begun."
	case asked == 0 && st.Total.Waiting == 0:
		return "Nobody asks for anything."
	case refused == 0:
		return fmt.Sprintf("Nobody is refused. %s a second are allowed.", figure(asked))
	}
	var who []string
	rules := slices.Clone(st.Rules)
	slices.SortStableFunc(rules, func(a, b RuleStatus) int {
		return cmp.Compare(b.PerSecond.Denied+b.PerSecond.Refused, a.PerSecond.Denied+a.PerSecond.Refused)
	})
	rest := refused
	for _, r := range rules[:min(3, len(rules))] {
		if n := r.PerSecond.Denied + r.PerSecond.Refused; n > 0 {
			who = append(who, fmt.Sprintf("%s by %s (%s)", figure(n), r.Name, why(&r.PerSecond)))
			rest -= n
		}
	}
	if n := st.Total.Unmatched.Denied; n > 0 {
		who = append(who, figure(n)+" that no rule matches")
		rest -= n
	}
	if rest > refused/100 {
		who = append(who, figure(rest)+" by others")
	}
	return fmt.Sprintf("%s of %s a second are refused: %s.", figure(refused), figure(asked), strings.Join(who, ", "))
}

// why is the reason that most are refused for.
func why(f *Flow[float64]) string {
	reasons := slices.SortedFunc(maps.Keys(f.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Reasons[b], f.Reasons[a]), cmp.Compare(a, b))
	})
	if len(reasons) == 0 || f.Refused > f.Denied {
		return "leases"
	}
	return reasons[0]
}

// figure is a number with as many digits as one reads.
func figure(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
