package problem

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

var htmlType = []string{"text/html; charset=utf-8"}

// A page is an HTML document. The time of a retry goes between head and tail.
type page struct{ head, tail string }

func newPage(title, detail string) page {
	title, detail = html.EscapeString(title), html.EscapeString(detail)
	return page{
		fmt.Sprintf(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>%s</title>
<style>
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.6rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } }
</style>
<h1>%s</h1>
<p>This request was not served: %s.
`, title, title, detail),
		"</html>\n",
	}
}

// with returns the page with the value of a Retry-After header, if any.
func (p page) with(retryAfter []string) []byte {
	again := ""
	if len(retryAfter) > 0 {
		again = "<p>Please try again in " + span(retryAfter[0]) + ".\n"
	}
	return []byte(p.head + again + p.tail)
}

// span describes a number of seconds, rounded up.
func span(seconds string) string {
	n, err := strconv.Atoi(seconds)
	switch {
	case err != nil:
		return seconds + " seconds"
	case n == 1:
		return "a second"
	case n <= 120:
		return seconds + " seconds"
	case n <= 120*60:
		return strconv.Itoa((n+59)/60) + " minutes"
	case n <= 48*3600:
		return strconv.Itoa((n+3599)/3600) + " hours"
	}
	return strconv.Itoa((n-1)/86400+1) + " days"
}

// prefersHTML reports whether an Accept names text/html, as browsers do, and
// gives it more weight than any type of JSON that it names.
func prefersHTML(accept []string) bool {
	page, data := 0.0, 0.0
	for _, line := range accept {
		for line != "" {
			var item string
			item, line, _ = strings.Cut(line, ",")
			kind, params, _ := strings.Cut(item, ";")
			switch kind = strings.TrimSpace(kind); {
			case strings.EqualFold(kind, "text/html"):
				page = max(page, weight(params))
			case strings.EqualFold(kind, "application/json"), strings.EqualFold(kind, "application/problem+json"):
				data = max(data, weight(params))
			}
		}
	}
	return page > data
}

// weight returns the parameter q: 1 if there is none, 0 if it is invalid.
func weight(params string) float64 {
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		q, err := strconv.ParseFloat(value, 64)
		if err != nil || !(q >= 0 && q <= 1) { // NaN is neither
			return 0
		}
		return q
	}
	return 1
}
