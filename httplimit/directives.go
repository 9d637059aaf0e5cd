package httplimit

import (
	"strconv"
	"strings"
)

// directives are what the Cache heeds of a Cache-Control (RFC 9111, 5.2).
type directives struct {
	private, noStore, noCache bool
	authorized                bool  // may be shared although its request had credentials: section 3.5
	maxAge, sMaxAge           int64 // in seconds; -1 if there is none
}

func parseDirectives(lines []string) directives {
	d := directives{maxAge: -1, sMaxAge: -1}
	for _, rest := range lines {
		for rest != "" {
			var one string
			one, rest = cutDirective(rest)
			name, value, _ := strings.Cut(one, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "private":
				d.private = true
			case "no-store":
				d.noStore = true
			case "no-cache":
				d.noCache = true
			case "public", "must-revalidate":
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

// cutDirective cuts a list at its first comma that is not quoted.
func cutDirective(list string) (first, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// least returns the shorter of a time in seconds and what came before it.
func least(before int64, value string) int64 {
	n := parseSeconds(strings.Trim(strings.TrimSpace(value), `"`))
	if before >= 0 {
		return min(before, n)
	}
	return n
}

// parseSeconds parses a time in seconds. One that is no number is zero.
func parseSeconds(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && n == 0 {
		return 0
	}
	return int64(min(n, 1<<31))
}
