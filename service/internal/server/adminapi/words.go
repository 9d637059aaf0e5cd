package adminapi

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
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
		return fmt.Sprintf("No request is rejected; %s per second are allowed.", figure(asked))
	}
	var parts []string
	rules := slices.Clone(st.Rules)
	slices.SortStableFunc(rules, func(a, b RuleStatus) int {
		return cmp.Compare(b.PerSecond.rejected(), a.PerSecond.rejected())
	})
	rest := rejected
	for _, r := range rules[:min(3, len(rules))] {
		if n := r.PerSecond.rejected(); n > 0 {
			parts = append(parts, fmt.Sprintf("%s by %s (%s)", figure(n), r.Name, why(&r.PerSecond)))
			rest -= n
		}
	}
	if n := st.Total.Unmatched.Denied; n > 0 {
		parts = append(parts, figure(n)+" without a matching rule")
		rest -= n
	}
	if rest > rejected/100 {
		parts = append(parts, figure(rest)+" by other rules")
	}
	what := figure(f.Denied) + " are denied"
	switch {
	case f.Denied == 0:
		what = figure(f.Refused) + " leases are refused"
	case f.Refused > 0:
		what += " and " + figure(f.Refused) + " leases refused"
	}
	return fmt.Sprintf("Of %s requests per second, %s: %s.", figure(asked), what, strings.Join(parts, ", "))
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

// grouped writes 1,234.
var grouped = message.NewPrinter(language.English)

// figure formats a rate as the page does.
func figure(v float64) string {
	digits := 0
	switch {
	case v == 0:
	case v < 1:
		digits = 2
	case v < 10:
		digits = 1
	}
	v = math.Nextafter(v, math.Inf(1)) // a half is rounded up, as in JavaScript
	if digits == 0 {
		return grouped.Sprint(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
