package httpapi

import (
	"net/http"
	"unsafe"

	"github.com/weir-go/weir/internal/httpheader"
)

// traits tell about the header of a request. A server that answers many requests with the same header may give the same
// map for all, so that the last one is remembered.
type traits struct {
	header  http.Header
	browser bool // a browser sent it, perhaps for a page of another origin
	text    bool // Accept prefers text/plain to JSON
}

// traits returns the traits of the request.
func (c *call) traits() *traits {
	h := c.r.Header
	if t := &c.last; pointer(t.header) != pointer(h) {
		*t = traits{h, len(h["Sec-Fetch-Site"]) > 0 || len(h["Origin"]) > 0, asText(h["Accept"])}
	}
	return &c.last
}

// pointer returns the identity of a map.
func pointer(h http.Header) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&h)) }

// asProblem reports whether an Accept names the type of problems, with a weight that
// is not zero.
func asProblem(accept []string) bool { return httpheader.Weight(accept, problemType[0]) > 0 }

// asText reports whether an Accept prefers text/plain to JSON by its weights. A client that names
// both with the same weight gets JSON.
func asText(accept []string) bool {
	text := httpheader.Weight(accept, "text/plain")
	return text > 0 && text > httpheader.Weight(accept, jsonType[0])
}
