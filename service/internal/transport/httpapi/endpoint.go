package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi/query"
)

// An endpoint is a method of a path.
type endpoint struct {
	method string             // or anyMethod
	root   string             // the first part of the path
	parts  int                // of the path: the second is a key, the third an id
	action token.Action       // that is authorized, if any
	params query.Param        // that the query may have
	kind   connlimit.Kind     // of a request that does not wait
	run    func(*call) *fault // answers, or returns a fault
}

// endpoints are ordered by frequency of use.
var endpoints = []endpoint{
	{"POST", "rate", 2, token.Decide, query.OfRate, connlimit.Deciding, (*call).ask},
	{"GET", "rate", 2, token.Decide, query.OfRate, connlimit.Deciding, (*call).ask},
	{"POST", "rate", 1, "", query.All | query.IDs, connlimit.Deciding, (*call).decideBatch}, // authorizes by itself
	{anyMethod, checkRoot, 1, "", 0, connlimit.Deciding, nil},                               // likewise: see call.check
	{"POST", "assign", 1, "", 0, connlimit.Deciding, (*call).assign},                        // likewise
	{"DELETE", "rate", 3, token.Decide, query.IK, connlimit.Settling, (*call).settle},
	{"POST", "rate", 3, token.Decide, query.N, connlimit.Settling, (*call).settle},
	{"POST", "lease", 2, token.Lease, query.OfLease, connlimit.Deciding, (*call).lease},
	{"GET", "lease", 2, token.Lease, 0, connlimit.Deciding, (*call).leases},
	{"POST", "lease", 3, token.Lease, query.TTL, connlimit.Settling, (*call).renew},
	{"DELETE", "lease", 3, token.Lease, query.Outcome, connlimit.Settling, (*call).giveLeaseBack},
	{"GET", "debug", 1, token.Debug, 0, connlimit.Debugging, (*call).instances},
	{"HEAD", "debug", 1, token.Debug, 0, connlimit.Debugging, (*call).instances},
	{"GET", "debug", 2, token.Debug, 0, connlimit.Deciding, (*call).instance},
	{"HEAD", "debug", 2, token.Debug, 0, connlimit.Deciding, (*call).instance},
	{"GET", "healthz", 1, "", query.OfAny, unlimited, (*call).health},
	{"HEAD", "healthz", 1, "", query.OfAny, unlimited, (*call).health},
	{"GET", "openapi.json", 1, "", query.OfAny, connlimit.Deciding, (*call).openAPI},
	{"HEAD", "openapi.json", 1, "", query.OfAny, connlimit.Deciding, (*call).openAPI},
}

// path returns the path as openapi.yaml spells it.
func (e *endpoint) path() string {
	return "/" + e.root + [...]string{"", "", "/{key}", "/{key}/{id}"}[e.parts]
}

// A target is a parsed path.
type target struct {
	root, key, id string
	parts         int // how many there are
}

// find returns the index of an endpoint, or len(endpoints).
func (t *target) find(method string) int {
	for i := range endpoints {
		if e := &endpoints[i]; e.parts == t.parts && e.root == t.root && (e.method == method || e.method == anyMethod) {
			return i
		}
	}
	return len(endpoints)
}

// locate parses a path. Only unescaped slashes separate its parts, so that an
// escaped slash, dots and empty parts can belong to a key. What follows /check/ is the path
// of a gateway's client, which is ignored.
func locate(u *url.URL) (t target) {
	path, escaped := u.Path, u.RawPath != ""
	if escaped {
		path = u.EscapedPath()
	}
	if path == "" || path[0] != '/' {
		return t
	}
	for rest, more := path[1:], true; more; {
		part := rest
		i := strings.IndexByte(rest, '/')
		if more = i >= 0; more {
			part, rest = rest[:i], rest[i+1:]
		}
		if escaped {
			part, _ = url.PathUnescape(part) // EscapedPath is always valid
		}
		switch t.parts++; t.parts {
		case 1:
			if t.root = part; part == checkRoot {
				return t
			}
		case 2:
			t.key = part
		case 3:
			t.id = part
		default:
			return target{} // a slash too many
		}
	}
	if t.root == "debug" && t.parts == 2 && t.key == "" {
		t.parts = 1
	}
	return t
}

// Route returns the path of a request as openapi.yaml spells it; "" if there is no such endpoint.
func Route(r *http.Request) string {
	t := locate(r.URL)
	if i := t.find(r.Method); i < len(endpoints) {
		return endpoints[i].path()
	}
	return ""
}

// misled returns the fault of a request to an unknown endpoint.
func (c *call) misled() *fault {
	c.key = ""
	var methods []string
	for i := range endpoints {
		if e := &endpoints[i]; e.parts == c.parts && e.root == c.root {
			methods = append(methods, e.method)
		}
	}
	if methods == nil {
		return unknownPath
	}
	allow := strings.Join(methods, ", ")
	c.w.Header()["Allow"] = []string{allow}
	text := "the methods of this path are " + allow
	if c.parts > 2 {
		text += "; " + slashInKey
	}
	return &fault{status: http.StatusMethodNotAllowed, text: text}
}
