package message

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/net/http/httpguts"
)

// methods has the methods of ordinary requests.
var methods = map[string]string{"GET": "GET", "POST": "POST", "PUT": "PUT", "DELETE": "DELETE", "PATCH": "PATCH"}

// Parse makes the request at the start of b, and returns its length. That is zero if it has not come whole. Only
// net/http can judge a request that is not ordinary, or longer than most.
func (r *Request) Parse(b []byte, most int) (n int, ordinary bool) {
	end := bytes.Index(b, []byte("\r\n\r\n")) + len("\r\n")
	if end < len("\r\n") {
		return 0, len(b) == 0 || 'A' <= b[0] && b[0] <= 'Z'
	}
	lineEnd := bytes.IndexByte(b, '\n') + 1
	line, ok := bytes.CutSuffix(b[:lineEnd], []byte(" HTTP/1.1\r\n"))
	method, target, spaced := bytes.Cut(line, []byte(" "))
	h := r.HTTP
	h.Method = methods[string(method)]
	if !ok || !spaced || h.Method == "" || bytes.IndexByte(target, ' ') >= 0 {
		return 0, false
	}
	if lines := b[lineEnd:end]; (string(lines) != r.Lines || r.Lines == "") && !r.setLines(string(lines)) {
		return 0, false
	}
	from := end + len("\r\n")
	n = from + r.Length
	if len(b) < n {
		return 0, n <= most
	}
	h.Host, h.RequestURI = r.host, unsafe.String(unsafe.SliceData(target), len(target))
	h.Body, h.ContentLength = http.NoBody, int64(r.Length)
	if r.Length > 0 {
		r.body.Reset(b[from:n])
		h.Body = &r.body
	}
	return n, r.setURL(h.RequestURI)
}

// setLines makes the header of lines that end with CRLF, and reports whether it is ordinary.
func (r *Request) setLines(text string) bool {
	r.newHeader()
	r.Lines, r.host, r.Length = text, "", 0
	hosts := 0
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return false
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch key {
		case "Host":
			hosts++
			r.host = value
			continue
		case "Content-Length":
			length, err := strconv.ParseUint(value, 10, 31)
			if err != nil || r.header[key] != nil {
				return false
			}
			r.Length = int(length)
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return false
			}
		case "Expect", "Http2-Settings", "Pragma", "Trailer", "Transfer-Encoding", "Upgrade":
			return false
		}
		r.header[key] = append(r.header[key], value)
	}
	return hosts == 1 && httpguts.ValidHostHeader(r.host)
}

// AppendHTTP1 appends the whole answer as HTTP/1.1 has it, with the Date.
func (w *Response) AppendHTTP1(b []byte, at string) []byte {
	w.WriteHeader(http.StatusOK)
	b = append(b, "HTTP/1.1 "...)
	b = append(strconv.AppendInt(b, int64(w.status), 10), ' ')
	if text := http.StatusText(w.status); text != "" {
		b = append(b, text...)
	} else {
		b = strconv.AppendInt(append(b, "status code "...), int64(w.status), 10)
	}
	b = append(b, "\r\n"...)
	for i := range w.fields {
		f := &w.fields[i]
		if name := f.name.Canonical; name != "Content-Length" && name != "Transfer-Encoding" {
			b = appendLine(b, name, f.value)
		}
	}
	b = appendLine(b, "Date", at)
	chunked := len(w.Trailers) > 0 || w.flushed
	if !w.bodyless() {
		if !w.typed && len(w.Body) > 0 {
			b = appendLine(b, "Content-Type", http.DetectContentType(w.Body))
		}
		if chunked {
			b = appendLine(b, "Transfer-Encoding", "chunked")
		} else {
			b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(w.Body)), 10)
			b = append(b, "\r\n"...)
		}
	}
	if w.Closes {
		b = appendLine(b, "Connection", "close")
	}
	b = append(b, "\r\n"...)
	switch {
	case w.bodyless():
	case chunked:
		b = appendChunks(b, w)
	default:
		b = append(b, w.Body...)
	}
	return b
}

// appendChunks appends the body of an answer with trailers.
func appendChunks(b []byte, w *Response) []byte {
	if len(w.Body) > 0 {
		b = append(strconv.AppendInt(b, int64(len(w.Body)), 16), "\r\n"...)
		b = append(append(b, w.Body...), "\r\n"...)
	}
	b = append(b, "0\r\n"...)
	for _, name := range w.Trailers {
		for _, value := range w.header[name] {
			b = appendLine(b, name, value)
		}
	}
	return append(b, "\r\n"...)
}

// appendLine appends a header line. Line breaks in a value become spaces, as in net/http.
func appendLine(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	from := len(b)
	b = append(b, value...)
	for i, c := range b[from:] {
		if c == '\r' || c == '\n' {
			b[from+i] = ' '
		}
	}
	return append(b, "\r\n"...)
}
