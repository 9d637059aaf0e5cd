package message

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A Response is the http.ResponseWriter of a connection. It is used again for each request that is
// answered here.
type Response struct {
	header   http.Header
	names    []*fieldblock.Name // in header once; the order of fields
	fields   []field            // of the header, without the status
	Trailers []string           // their names
	Body     []byte
	state
}

// A field is a header field of an answer.
type field struct {
	name  *fieldblock.Name
	value string
}

// A state describes a response so far.
type state struct {
	status  int  // 0 before the header
	typed   bool // there is a Content-Type
	sized   bool // there is a Content-Length
	Closes  bool // the client is asked to leave
	flushed bool // the length was not known with the header
	Head    bool // the request is HEAD: the body is not sent
}

// NewResponse returns an empty response.
func NewResponse() Response { return Response{header: http.Header{}} }

// Header returns the header fields of the answer.
func (w *Response) Header() http.Header { return w.header }

// maxNames bounds the names that are remembered for the next answer.
const maxNames = 16

// WriteHeader keeps the header as it is now.
func (w *Response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	left := len(w.header)
	for i := 0; i < len(w.names) && left > 0; i++ {
		if values, ok := w.header[w.names[i].Canonical]; ok {
			w.add(w.names[i], values)
			left--
		}
	}
	if left == 0 {
		return
	}
	known := w.names
	for canonical, values := range w.header {
		if slices.ContainsFunc(known, func(n *fieldblock.Name) bool { return n.Canonical == canonical }) {
			continue
		}
		if name := fieldblock.NameOf(canonical); name != nil {
			if len(w.names) < maxNames {
				w.names = append(w.names, name)
			}
			w.add(name, values)
		}
	}
}

// add adds the fields with a name to the header.
func (w *Response) add(name *fieldblock.Name, values []string) {
	switch name.Canonical {
	case "Connection":
		w.Closes = len(values) > 0 && values[0] == "close"
		return
	case "Trailer":
		w.Trailers = append(w.Trailers, values...)
	case "Content-Type":
		w.typed = true
	case "Content-Length":
		w.sized = true
	}
	for _, value := range values {
		w.fields = append(w.fields, field{name, value})
	}
}

// bodyless reports whether the status permits no body.
func (w *Response) bodyless() bool {
	return w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// Write adds to the body.
func (w *Response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bodyless() {
		return 0, http.ErrBodyNotAllowed
	}
	w.Body = append(w.Body, b...)
	return len(b), nil
}

// Names of fields that a handler need not set.
var (
	contentType = fieldblock.NameOf("Content-Type")
	date        = fieldblock.NameOf("Date")
)

// sizedBody bounds the bodies to which net/http adds a Content-Length.
const sizedBody = 4 << 10

// End completes the header, but for its length. It reports whether there is no more than that.
func (w *Response) End() bool {
	w.WriteHeader(http.StatusOK)
	if !w.bodyless() && !w.typed && len(w.Body) > 0 {
		w.fields = append(w.fields, field{contentType, http.DetectContentType(w.Body)})
	}
	return w.Head || len(w.Body) == 0 && len(w.Trailers) == 0
}

// Flush ends the header. An answer is sent when it is whole.
func (w *Response) Flush() {
	w.WriteHeader(http.StatusOK)
	w.flushed = true
}

// SetReadDeadline does nothing: the whole body was read.
func (w *Response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the connection has deadlines.
func (w *Response) SetWriteDeadline(time.Time) error { return nil }

// Forget drops the response, with what its handler has made for it.
func (w *Response) Forget() {
	clear(w.header)
	clear(w.fields)
	w.fields, w.Trailers, w.Body, w.state = w.fields[:0], w.Trailers[:0], w.Body[:0], state{}
}

// AppendFields appends the header as fields of HTTP/2, after End, with the Date.
func (w *Response) AppendFields(b []byte, enc *fieldblock.Encoder, at string) []byte {
	b = enc.Append(fieldblock.AppendStatus(b, w.status), 0, date, at)
	for i := range w.fields {
		b = enc.Append(b, i+1, w.fields[i].name, w.fields[i].value)
	}
	if !w.bodyless() && !w.sized && !w.flushed && len(w.Body) <= sizedBody && (len(w.Body) > 0 || !w.Head) {
		b = fieldblock.AppendContentLength(b, len(w.Body))
	}
	return b
}

// AppendTrailer appends the trailer as fields of HTTP/2.
func (w *Response) AppendTrailer(b []byte) []byte {
	for _, name := range w.Trailers {
		for _, value := range w.header[name] {
			if name := fieldblock.NameOf(name); name != nil {
				b = name.Append(b, value)
			}
		}
	}
	return b
}
