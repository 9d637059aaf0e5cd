package httpheader

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

// RetryAfter returns the wait that a response received now asks for, in either
// form of RFC 9110, section 10.2.3. It compares a date with the Date of the response,
// if there is one, because the clocks may differ. A date in the past is no wait. If
// ok is false, Retry-After is missing or malformed.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	lines := h["Retry-After"]
	if len(lines) != 1 {
		return 0, false
	}
	value := textproto.TrimString(lines[0])
	if value != "" && strings.Trim(value, "0123456789") == "" {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil { // it overflows
			return pacing.Forever, true
		}
		return ratelimitfield.Seconds(n), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), pacing.Forever), true
}
