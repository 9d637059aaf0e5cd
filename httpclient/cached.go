package httpclient

import (
	"net/http"
	"strings"
)

// fromCache reports whether a response comes from a cache: its rate limit fields
// were meant for another client (draft-10, section 7.3).
func fromCache(h http.Header) bool {
	age := h.Get("Age")
	return age != "" && strings.Trim(age, "0 ") != ""
}
