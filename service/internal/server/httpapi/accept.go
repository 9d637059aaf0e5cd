package httpapi

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/internal/inline"
)

// FactsOf returns the Facts of a header that the API uses: not GRPC.
func FactsOf(h http.Header) inline.Facts {
	accept := h["Accept"]
	return inline.Facts{
		Browser: len(h["Sec-Fetch-Site"]) > 0 || len(h["Origin"]) > 0,
		Text:    asText(accept), Problem: asProblem(accept),
	}
}

// facts returns the Facts of the request.
func (c *call) facts() inline.Facts {
	if c.inline != nil {
		return c.inline.Facts()
	}
	return FactsOf(c.r.Header)
}

// asProblem reports whether an Accept names the type of problems, with a weight that
// is not zero.
func asProblem(accept []string) bool { return weight(accept, problemType[0]) > 0 }

// asText reports whether an Accept prefers text/plain to JSON by its weights. A client that names
// both with the same weight gets JSON.
func asText(accept []string) bool {
	text := weight(accept, "text/plain")
	return text > 0 && text > weight(accept, jsonType[0])
}

// weight returns the weight of a type that an Accept names: 1 if it gives none, or none that can
// be read. It returns 0 for a type that is not named. Ranges such as */* name no type.
func weight(accept []string, kind string) float64 {
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			named, params, weighted := strings.Cut(item, ";")
			if !strings.EqualFold(strings.TrimSpace(named), kind) {
				continue
			}
			if !weighted || params == "" {
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
