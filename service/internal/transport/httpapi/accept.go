package httpapi

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unsafe"
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
func asProblem(accept []string) bool { return weight(accept, problemType[0]) > 0 }

// asText reports whether an Accept prefers text/plain to JSON by its weights. A client that names
// both with the same weight gets JSON.
func asText(accept []string) bool {
	text := weight(accept, "text/plain")
	return text > 0 && text > weight(accept, jsonType[0])
}

// maxAccepted bounds the types of an Accept that are looked at. Browsers name fewer than ten.
const maxAccepted = 32

// maxAcceptedItem bounds a type with parameters of which one is its weight, in bytes.
const maxAcceptedItem = 128

// weight returns the weight of a type that an Accept names: 1 if it gives none, or none that can
// be read. It returns 0 for a type that is not among the first maxAccepted. Ranges such as */* name no type.
func weight(accept []string, kind string) float64 {
	n := 0
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			if n++; n > maxAccepted {
				return 0
			}
			named, params, weighted := strings.Cut(item, ";")
			if !strings.EqualFold(strings.TrimSpace(named), kind) {
				continue
			}
			if !weighted || params == "" || len(item) > maxAcceptedItem {
				return 1
			}
			_, values, _ := mime.ParseMediaType(item)
			if q, err := strconv.ParseFloat(values["q"], 64); err == nil {
				return q
			}
			return 1
		}
	}
	return 0
}
