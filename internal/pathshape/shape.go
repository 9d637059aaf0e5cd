// Package pathshape tells routes of a service by the paths of requests, without a list of routes.
package pathshape

import "strings"

const (
	maxElements = 8  // of a path; what follows is one wildcard
	maxElement  = 32 // bytes of an element that is no wildcard
	wildcard    = "*"
)

// Shape returns a name for the route of a request: its path, with wildcards instead of elements that
// look like identifiers. Another wildcard stands for all that follows the eighth element. The method
// precedes the path, unless it is GET. A GET of a path without wildcards allocates nothing, and any
// other request allocates once.
func Shape(method, path string) string {
	var room [(1 + maxElements) * (1 + maxElement)]byte
	shape, plain := room[:0], method == "GET"
	if !plain {
		shape = append(append(shape, shapeOf(method)...), ' ')
	}
	rest, more := strings.TrimPrefix(path, "/"), true
	for i := 0; more; i++ {
		var element string
		if element, rest, more = strings.Cut(rest, "/"); i == maxElements {
			element, more = wildcard, false
		}
		element = shapeOf(element)
		plain = plain && element != wildcard
		shape = append(append(shape, '/'), element...)
	}
	if plain {
		return path
	}
	return string(shape)
}

// shapeOf returns an element, or the wildcard if it is variable.
func shapeOf(element string) string {
	if variable(element) {
		return wildcard
	}
	return element
}

// variable reports whether an element of a path looks like an identifier, or cannot be in a
// pattern as it is.
func variable(element string) bool {
	digits := 0
	for _, c := range []byte(element) {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_', c == '.', c == '~':
		default:
			return true
		}
	}
	return digits >= 3 || digits > 0 && digits == len(element) || len(element) > maxElement
}

// Several reports whether a pattern of http.ServeMux has several routes: the empty pattern, which
// stands for all requests, and one of all paths below a path.
func Several(pattern string) bool {
	return pattern == "" || strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "...}")
}
