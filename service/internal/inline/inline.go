// Package inline has the interface between the inline transport of weir serve and its handlers. That transport answers a
// request that does not wait on the goroutine of its connection.
package inline

import (
	"net/http"
	"strings"
)

// A Writer is the ResponseWriter of such a request. The body of the request was read whole, and deadlines
// are the connection's. A ResponseWriter of a handler in between must be a Writer, too.
type Writer interface {
	http.ResponseWriter
	// Facts returns the Facts of the request's header.
	Facts() Facts
	// SetField sets a header field, and copies it, so that it needs no memory of its own. The name has lower case. The
	// field must not be in Header too. The values of a "trailer" are names as http.Header has them.
	SetField(name, value string)
	// Status returns the status of the answer. It is 200 until the handler says another.
	Status() int
}

// Facts tell the handlers of decisions what the header of a request says. Most requests of a connection have the header of the
// one before, so that the transport finds them once for many.
type Facts struct {
	GRPC    bool // the body is of gRPC
	Browser bool // a browser sent it, perhaps for a page of another origin: there is a Sec-Fetch-Site or an Origin
	Text    bool // Accept prefers text/plain to JSON
}

// IsGRPC reports whether the body of a request is of gRPC.
func IsGRPC(h http.Header) bool {
	contentType := h["Content-Type"]
	return len(contentType) == 1 && strings.HasPrefix(contentType[0], "application/grpc")
}
