package adminapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/operator"
)

// summary states how many requests are refused, by which rules and why.
func summary(st *Status) string {
	f := &st.Total.PerSecond
	refused := f.rejected()
	asked := f.Allowed + f.Leased + refused
	switch {
	case st.WindowMS == 0:
		return "No rates yet: the server has just started."
	case asked == 0 && st.Total.Waiting == 0:
		return "No requests."
	case refused == 0:
		return fmt.Sprintf("No request is refused; %s per second are allowed.", operator.Figure(asked))
	}
	var parts []string
	rules := slices.Clone(st.Rules)
	slices.SortStableFunc(rules, func(a, b RuleStatus) int {
		return cmp.Compare(b.PerSecond.rejected(), a.PerSecond.rejected())
	})
	rest := refused
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
	if rest > refused/100 {
		parts = append(parts, operator.Figure(rest)+" by other rules")
	}
	return fmt.Sprintf("%s of %s requests per second are refused: %s.", operator.Figure(refused), operator.Figure(asked), strings.Join(parts, ", "))
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
