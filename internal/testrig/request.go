package testrig

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

// Request returns a request without a body for a handler, with header lines such as "Name: value".
func Request(method, url string, lines ...string) *http.Request {
	r := httptest.NewRequest(method, url, nil)
	AddHeader(r.Header, lines...)
	return r
}

// AddHeader adds lines such as "Name: value" to a header.
func AddHeader(h http.Header, lines ...string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
}
