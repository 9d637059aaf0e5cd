// Package routeset finds the pattern of http.ServeMux that matches a request.
package routeset

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A Set is a set of patterns of http.ServeMux. Unlike a ServeMux, it resolves escapes in
// paths before it removes . and .. elements, and compares hosts without case and a dot at the end, so that
// a client cannot avoid a pattern by another spelling. Match is safe for concurrent use.
type Set struct {
	// Patterns of one mux do not conflict: of several that match a request, one is the most
	// specific.
	muxes []*mux
}

type mux struct {
	http.ServeMux
	all bool // "/" is one of the patterns
}

// ErrConflict is the error for a pattern of which another one is neither more nor less
// specific, and for a pattern that is there already.
var ErrConflict = errors.New("conflict")

// Of returns the set of patterns. It panics if Add would refuse one.
func Of(patterns []string) *Set {
	s := new(Set)
	for _, pattern := range patterns {
		if err := s.Add(pattern); err != nil {
			panic("routeset: " + err.Error())
		}
	}
	s.close()
	return s
}

// Add adds a pattern. Where the set has a pattern that conflicts with it, both match, and the
// earlier one counts.
func (s *Set) Add(pattern string) error {
	for _, m := range s.muxes {
		if err := m.add(pattern); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	m := new(mux)
	err := m.add(pattern)
	if err == nil {
		s.muxes = append(s.muxes, m)
	}
	return err
}

// AddOne adds a pattern, unless it conflicts with another.
func (s *Set) AddOne(pattern string) error {
	if len(s.muxes) == 0 {
		return s.Add(pattern)
	}
	return s.muxes[0].add(pattern)
}

func (m *mux) add(pattern string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = patternError(fmt.Sprint(v))
		}
	}()
	m.Handle(pattern, http.NotFoundHandler())
	m.all = m.all || pattern == "/"
	return nil
}

// conflict is the message of ServeMux for two patterns, which says in the end why.
var conflict = regexp.MustCompile(`(?s)conflicts with pattern (".*") \(registered at [^)]*\):\n(.*)$`)

// patternError turns a panic of ServeMux into an error.
func patternError(message string) error {
	if parts := conflict.FindStringSubmatch(message); parts != nil {
		why := strings.Join(strings.Fields(parts[2]), " ")
		return fmt.Errorf("%w with %s: %s", ErrConflict, parts[1], why)
	}
	return errors.New(strings.Join(strings.Fields(message), " "))
}

// close ends the additions. It gives each mux a pattern for all requests, because a
// mismatch is slow: ServeMux collects methods for its answer. A pattern such as /{path...}
// that conflicts with it matches all requests already.
func (s *Set) close() {
	for _, m := range s.muxes {
		if !m.all {
			_ = m.add("/")
			m.all = false
		}
	}
}

// Match returns the most specific pattern that matches a request.
func (s *Set) Match(r *http.Request) (pattern string, ok bool) {
	if len(s.muxes) == 0 {
		return "", false
	}
	if host := CanonicalHost(r.Host); r.URL.RawPath != "" || host != r.Host {
		r = &http.Request{Method: r.Method, Host: host, URL: &url.URL{Path: clean(r.URL.Path)}}
	}
	for _, m := range s.muxes {
		if _, pattern = m.Handler(r); pattern != "" && (m.all || pattern != "/") {
			return pattern, true
		}
	}
	return "", false
}

// CanonicalHost returns a host in lower case, without the dot at its end. It keeps the port, and allocates only if
// something changes.
func CanonicalHost(host string) string {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], host[i:]
	}
	if canonical := strings.ToLower(strings.TrimSuffix(name, ".")); canonical != name {
		return canonical + port
	}
	return host
}

// Never returns what a pattern must have, or lack, to match a request of a client at all.
func Never(pattern string) (must string) {
	method, rest, ok := strings.Cut(pattern, " ")
	if !ok {
		method, rest = "", pattern
	}
	host, p := strings.TrimLeft(rest, " \t"), ""
	if i := strings.IndexByte(host, '/'); i >= 0 {
		host, p = host[:i], host[i:]
	}
	switch {
	case method == http.MethodConnect:
		return "have another method, because CONNECT is not served"
	case method != strings.ToUpper(method):
		return "have its method in upper case"
	case host != CanonicalHost(host):
		return "have its host in lower case, without a dot at the end"
	case strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']'):
		return "have its host without a port"
	case slices.Contains(strings.Split(p, "/"), "*"):
		return "have no *: /api/ is all paths below it, and /{id} is one element"
	case strings.ContainsAny(p, "?#"):
		return "have a path without a query"
	case strings.Contains(strings.ToLower(p), "%2f"):
		return "have a path without %2F, because escapes are resolved before"
	case p != "" && clean(p) != p:
		return "have a path without //, . and .."
	}
	return ""
}

// clean removes . and .. elements from a path, and double slashes.
func clean(p string) string {
	cleaned := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && cleaned != "/" {
		cleaned += "/"
	}
	return cleaned
}
