package httpcache

import (
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/httpheader"
)

// directives are the directives of a Cache-Control that count (RFC 9111, 5.2).
type directives struct {
	private         bool // or no-cache
	noStore         bool
	authorized      bool  // may be shared, while fresh, although its request had credentials
	maxAge, sMaxAge int64 // in seconds; -1 if there is none
}

// parseDirectives parses the lines of a Cache-Control. A quote that does not end is
// ambiguous, and counts as no-store.
func parseDirectives(lines []string) directives {
	d := directives{maxAge: -1, sMaxAge: -1}
	for _, rest := range lines {
		for rest != "" {
			var one string
			var ok bool
			if one, rest, ok = httpheader.Cut(rest, ','); !ok {
				d.noStore = true
			}
			name, value, _ := strings.Cut(one, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "private", "no-cache":
				d.private = true
			case "no-store":
				d.noStore = true
			case "public":
				d.authorized = true
			case "s-maxage":
				d.authorized = true
				d.sMaxAge = least(d.sMaxAge, value)
			case "max-age":
				d.maxAge = least(d.maxAge, value)
			}
		}
	}
	return d
}

// least returns the shorter of a time in seconds and the one before.
func least(before int64, value string) int64 {
	n := parseSeconds(strings.Trim(strings.TrimSpace(value), `"`))
	if before >= 0 {
		return min(before, n)
	}
	return n
}

// maxSeconds replaces all longer times (RFC 9111, 1.2.2).
const maxSeconds = 1 << 31

// parseSeconds parses a time in seconds. If it is not a number, it is zero.
func parseSeconds(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && n == 0 {
		return 0
	}
	return int64(min(n, maxSeconds))
}
