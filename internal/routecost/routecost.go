// Package routecost tells routes of a service by the paths of requests, and finds the routes whose
// requests take much longer than the others. It needs no list of routes.
//
// Elements of paths that look like identifiers become wildcards, and so do elements of
// which there are too many: /users/4711/orders is the route GET /users/{id}/orders.
package routecost

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MaxRoutes is how many dear routes callers handle apart: each has a limit, and labels metrics.
const MaxRoutes = 8

const (
	maxElements = 8    // of a path; what follows is one wildcard
	maxElement  = 32   // bytes of an element that is no wildcard
	maxLiterals = 16   // elements in one place of a path; the others are one wildcard
	maxNodes    = 1024 // of a Table, which is the bound of its memory

	enough   = 32                     // requests of a route, and of the others, of which a mean is known
	heavy    = 0.1                    // the least share of the time of all requests that a dear route takes
	dear     = 5                      // times the mean of the others that its requests take
	interval = 100 * time.Millisecond // between two comparisons
	memory   = 1 << 12                // requests after which the earlier ones count for half
)

// A Table counts the requests of routes, and their times. The zero Table is empty. It is safe
// for concurrent use.
type Table struct {
	mu    sync.Mutex // guards the fields below
	root  node       // its children are methods
	nodes int
	all   cost // of all requests
	next  time.Duration
}

// A cost is a number of requests, and the seconds that they took.
type cost struct{ n, seconds float64 }

// mean returns how long a request took.
func (c cost) mean() float64 { return c.seconds / c.n }

// minus returns a cost without that of other requests.
func (c cost) minus(other cost) cost { return cost{c.n - other.n, c.seconds - other.seconds} }

// A node stands for the beginning of a path.
type node struct {
	cost    // of the paths that end here
	literal map[string]*node
	any     *node
}

// Add counts a request of a method and a path that took a time, and ended now. Now and then, it
// returns the pattern of a route, as http.ServeMux has them, whose requests are dear: they take
// five times as long as all others on average, or longer, and a tenth of the time of all. The Table
// forgets such a route: the caller handles its requests apart. Otherwise, the pattern is empty.
// A call that meets another one counts nothing.
func (t *Table) Add(now time.Duration, method, path string, took time.Duration) (pattern string) {
	if !t.mu.TryLock() { // no request waits for another one
		return ""
	}
	defer t.mu.Unlock()
	c := cost{1, took.Seconds()}
	t.all.add(c)
	if n := t.find(method, path); n != nil {
		n.add(c)
	}
	if now < t.next {
		return ""
	}
	t.next = now + interval
	pattern = t.dearest()
	if t.all.n >= memory {
		t.all.halve()
		t.nodes -= t.root.fade()
	}
	return pattern
}

func (c *cost) add(more cost) { c.n, c.seconds = c.n+more.n, c.seconds+more.seconds }

func (c *cost) halve() { c.n, c.seconds = c.n/2, c.seconds/2 }

// find returns the node of a path; nil if there is no room for it.
func (t *Table) find(method, path string) *node {
	n := t.child(&t.root, method, maxLiterals)
	rest, more := strings.TrimPrefix(path, "/"), true
	for i := 0; more && n != nil; i++ {
		element, most := "", 0
		if i == maxElements {
			more = false
		} else {
			element, rest, more = strings.Cut(rest, "/")
			switch {
			case element == "" && more, element == ".", element == "..": // no pattern has them
				return nil
			case !variable(element):
				most = maxLiterals
			}
		}
		n = t.child(n, element, most)
	}
	return n
}

// child returns the child of a node for an element: one of its own if there are fewer than
// most, and that of the wildcard otherwise.
func (t *Table) child(n *node, element string, most int) *node {
	if c := n.literal[element]; c != nil && most > 0 {
		return c
	}
	own := len(n.literal) < most
	if !own && n.any != nil {
		return n.any
	}
	if t.nodes >= maxNodes {
		return nil
	}
	t.nodes++
	c := new(node)
	if !own {
		n.any = c
		return c
	}
	if n.literal == nil {
		n.literal = map[string]*node{}
	}
	n.literal[strings.Clone(element)] = c
	return c
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

// dearest returns the pattern of the dear route that takes the most time.
func (t *Table) dearest() (pattern string) {
	var found *node
	t.root.walk(nil, func(elements []string, n *node) {
		others := t.all.minus(n.cost)
		if n.n < enough || others.n < enough || n.seconds < heavy*t.all.seconds || n.mean() < dear*others.mean() ||
			found != nil && n.seconds <= found.seconds || elements[0] == wildcard {
			return
		}
		pattern, found = patternOf(elements), n
	})
	if found != nil {
		t.all = t.all.minus(found.cost)
		found.cost = cost{}
	}
	return pattern
}

// wildcard stands for any element; in an http.ServeMux, that is one of a CONNECT.
const wildcard = "*"

// walk visits all nodes, with the elements that lead to them.
func (n *node) walk(elements []string, visit func([]string, *node)) {
	if n.n > 0 {
		visit(elements, n)
	}
	for element, c := range n.literal {
		c.walk(append(slices.Clip(elements), element), visit)
	}
	if n.any != nil {
		n.any.walk(append(slices.Clip(elements), wildcard), visit)
	}
}

// fade halves the counts, and returns how many nodes it has removed.
func (n *node) fade() (removed int) {
	n.halve()
	for element, c := range n.literal {
		removed += c.fade()
		if c.empty() {
			delete(n.literal, element)
			removed++
		}
	}
	if n.any != nil {
		removed += n.any.fade()
		if n.any.empty() {
			n.any = nil
			removed++
		}
	}
	return removed
}

func (n *node) empty() bool { return n.n < 0.5 && len(n.literal) == 0 && n.any == nil }

// patternOf returns the pattern of a method and the elements of a path.
func patternOf(elements []string) string {
	var b strings.Builder
	b.WriteString(elements[0])
	b.WriteByte(' ')
	wildcards := 0
	for i, element := range elements[1:] {
		b.WriteByte('/')
		switch {
		case i == maxElements:
			b.WriteString("{rest...}")
		case element == wildcard:
			b.WriteString("{id")
			if wildcards++; wildcards > 1 {
				b.WriteString(strconv.Itoa(wildcards))
			}
			b.WriteByte('}')
		case element == "" && i == len(elements)-2:
			b.WriteString("{$}")
		default:
			b.WriteString(element)
		}
	}
	return b.String()
}
