package adminapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/operator"
)

// summary states how many requests are rejected, by which rules and why. Its numbers are
// those of the page.
func summary(st *Status) string {
	f := &st.Total.PerSecond
	rejected := f.rejected()
	asked := f.Allowed + f.Leased + rejected
	switch {
	case st.WindowMS == 0:
		return "No rates yet: the server has just started."
	case asked == 0 && st.Total.Waiting == 0:
		return "No requests."
	case rejected == 0:
		return fmt.Sprintf("No request is rejected; %s per second are allowed.", operator.Figure(asked))
	}
	var parts []string
	rules := slices.Clone(st.Rules)
	slices.SortStableFunc(rules, func(a, b RuleStatus) int {
		return cmp.Compare(b.PerSecond.rejected(), a.PerSecond.rejected())
	})
	rest := rejected
	for _, r := range rules[:min(3, len(rules))] {
		if n := r.PerSecond.rejected(); n > 0 {
			parts = append(parts, fmt.Sprintf("%s by %s (%s)", operator.Figure(n), r.Name, why(&r.PerSecond)))
			rest -= n
		}
	}
	if n := st.Total.Unmatched.Denied; n > 0 {
		parts = append(parts, operator.Figure(n)+" without a matching rule")
		rest -= n
	}
	if rest > rejected/100 {
		parts = append(parts, operator.Figure(rest)+" by other rules")
	}
	what := operator.Figure(f.Denied) + " are denied"
	switch {
	case f.Denied == 0:
		what = operator.Figure(f.Refused) + " leases are refused"
	case f.Refused > 0:
		what += " and " + operator.Figure(f.Refused) + " leases refused"
	}
	return fmt.Sprintf("Of %s requests per second, %s: %s.", operator.Figure(asked), what, strings.Join(parts, ", "))
}

// why returns the most frequent reason.
func why(f *Flow[float64]) string {
	reasons := slices.SortedFunc(maps.Keys(f.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Reasons[b], f.Reasons[a]), cmp.Compare(a, b))
	})
	if len(reasons) == 0 || f.Refused > f.Denied {
		return "leases"
	}
	return reasons[0]
}
