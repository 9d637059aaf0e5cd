package relay

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Outgoing turns the copy of a request into the one for the origin.
func Outgoing(out, in *http.Request) {
	if in.ContentLength == 0 {
		out.Body = nil // so that the transport may send it again
	}
	url := *in.URL
	out.URL, out.Close = &url, false
	out.Header = make(http.Header, len(in.Header)+4)
	for name, values := range in.Header {
		if !IsHopByHop(name) {
			out.Header[name] = values
		}
	}
	removeListed(out.Header, in.Header["Connection"])
	switch to := upgradeOf(in.Header); {
	case httpguts.HeaderValuesContainsToken([]string{to}, "h2c"): // its requests would be one exchange for the limit
		delete(out.Header, "Http2-Settings")
	case to != "":
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{to}
	}
	if httpguts.HeaderValuesContainsToken(in.Header["Te"], "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = noAgent
	}
}

// noAgent keeps the transport from adding a User-Agent.
var noAgent = []string{""}

// IsHopByHop reports whether a header, in its canonical form, concerns one connection only
// (RFC 9110, section 7.6.1; RFC 2616, section 13.5.1).
func IsHopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// removeListed removes the headers that the values of a Connection header list.
func removeListed(h http.Header, connection []string) {
	for _, list := range connection {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
}

// AnswerHeader adds the header of an answer to that of the client's.
func AnswerHeader(h http.Header, resp *http.Response) {
	removeListed(resp.Header, resp.Header["Connection"])
	for name, values := range resp.Header {
		switch have := h[name]; {
		case IsHopByHop(name):
		case have == nil:
			h[name] = values
		default:
			h[name] = append(have[:len(have):len(have)], values...)
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // otherwise net/http guesses one
	}
	if len(resp.Trailer) > 0 {
		names := make([]string, 0, len(resp.Trailer))
		for name := range resp.Trailer {
			names = append(names, name)
		}
		h.Add("Trailer", strings.Join(names, ", "))
	}
}

// AnswerTrailer adds the trailer of an answer, after the body.
func AnswerTrailer(w http.ResponseWriter, trailer http.Header, announced int) {
	if len(trailer) == 0 {
		return
	}
	_ = http.NewResponseController(w).Flush() // so that a short body is chunked, and gets no Content-Length
	prefix := http.TrailerPrefix
	if len(trailer) == announced {
		prefix = ""
	}
	h := w.Header()
	for name, values := range trailer {
		for _, value := range values {
			h.Add(prefix+name, value)
		}
	}
}
