// Package inline has the interface between the inline transport of weir serve and its handlers. That transport answers a
// request that does not wait on the goroutine of its connection.
package inline

import (
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/fieldblock"
)

// A Writer is the ResponseWriter of such a request. The body of the request was read whole, and deadlines
// are the connection's. A ResponseWriter of a handler in between must be a Writer, too.
type Writer interface {
	http.ResponseWriter
	// Facts returns the Facts of the request's header.
	Facts() Facts
	// SetField sets a header field, which must not be in Header too. The values of a Trailer are names as http.Header
	// has them.
	SetField(f *Field)
	// SetValue sets a header field with a name in lower case, and copies the value, so that it needs no memory of its own.
	SetValue(name string, value []byte)
	// Now returns the present instant, which the transport has read a few requests ago.
	Now() time.Time
	// Status returns the status of the answer. It is 200 until the handler says another.
	Status() int
}

// A Field is a header field that many answers have. It is encoded once.
type Field struct {
	Name     string               // as http.Header has it
	Values   []string             // one
	Line     []byte               // of HTTP/1.1
	Constant *fieldblock.Constant // of HTTP/2
}

// NewField returns a Field. The name is as http.Header has it. The value must be valid.
func NewField(name, value string) *Field {
	return &Field{name, []string{value}, []byte(name + ": " + value + "\r\n"), fieldblock.NewConstant(name, value)}
}

// Value returns the value.
func (f *Field) Value() string { return f.Values[0] }

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
