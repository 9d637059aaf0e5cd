package proxyrule

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Routes is a set of patterns of http.ServeMux. The most specific one that matches a
// request counts. Unlike a ServeMux, it resolves escapes in paths before it removes . and
// .. elements, so that a client cannot avoid a pattern by another spelling of its path.
// It is safe for concurrent use, but not with Add.
type Routes struct {
	mux *http.ServeMux
	all bool // "/" is one of the patterns
}

// Add adds a pattern, or returns an error that says what is wrong with it.
func (s *Routes) Add(pattern string) (err error) {
	if s.mux == nil {
		s.mux = http.NewServeMux()
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s", patternError(fmt.Sprint(v)))
		}
	}()
	s.mux.Handle(pattern, http.NotFoundHandler())
	s.all = s.all || pattern == "/"
	return nil
}

// close ends the additions.
func (s *Routes) close() {
	if s.mux == nil || s.all {
		return
	}
	defer func() { _ = recover() }()          // a pattern such as /{path...} is the same as "/"
	s.mux.Handle("/", http.NotFoundHandler()) // without it, a mismatch is slow: ServeMux collects methods
}

// registration is the place in our code that ServeMux adds to a pattern in an error.
var registration = regexp.MustCompile(` \(registered at [^)]*\)`)

// patternError returns the message of a panic of ServeMux in one line.
func patternError(message string) string {
	message = registration.ReplaceAllString(message, "")
	return strings.Join(strings.Fields(strings.ReplaceAll(message, "\n", "; ")), " ")
}

// Match returns the most specific pattern that matches a request.
func (s *Routes) Match(r *http.Request) (pattern string, ok bool) {
	if s.mux == nil {
		return "", false
	}
	if r.URL.RawPath != "" {
		r = &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: clean(r.URL.Path)}}
	}
	_, pattern = s.mux.Handler(r)
	return pattern, pattern != "" && (s.all || pattern != "/")
}

func clean(p string) string {
	if p == "" || p[0] != '/' {
		p = "/" + p
	}
	cleaned := path.Clean(p)
	if strings.HasSuffix(p, "/") && cleaned != "/" {
		cleaned += "/"
	}
	return cleaned
}
