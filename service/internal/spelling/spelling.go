// Package spelling finds the name that a misspelt one may have meant.
package spelling

// Closest returns the name that is closest to a misspelt one; "" if none is close.
func Closest(meant string, names []string) string {
	closest, least := "", len(meant)/3+1
	for _, name := range names {
		if d := distance(meant, name, least); d < least {
			closest, least = name, d
		}
	}
	return closest
}

// distance returns the number of insertions, deletions, changes and swaps of neighbouring letters that
// make b of a: the optimal string alignment distance of Damerau and Levenshtein. If the lengths alone
// differ by the bound or more, it returns the bound.
func distance(a, b string, bound int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= bound {
		return bound
	}
	// row[j] is the distance of a[:i] and b[:j]; last is the row of i-1, and before that of i-2.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
