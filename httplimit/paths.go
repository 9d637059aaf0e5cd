package httplimit

import (
	"net/http"
	"strings"
)

// paths are those of requests that are exempt.
type paths struct {
	exact map[string]bool
	below []string // with a slash at the end
}

func newPaths(list []string) paths {
	p := paths{exact: make(map[string]bool, len(list))}
	for _, path := range list {
		if strings.HasSuffix(path, "/") {
			p.below = append(p.below, path)
		} else {
			p.exact[path] = true
		}
	}
	return p
}

// has reports whether a request is exempt. A path that is not clean is not: a
// handler may take it for another.
func (p *paths) has(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if p.exact[r.URL.Path] {
		return true
	}
	for _, b := range p.below {
		if strings.HasPrefix(r.URL.Path, b) && !strings.Contains(r.URL.Path, "/.") && !strings.Contains(r.URL.Path, "//") {
			return true
		}
	}
	return false
}
