package httpheader

import (
	"math"
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
// if there is one, because the clocks may differ. A date in the past is no wait. Seconds may
// have a fraction, though the RFC has none. If there are several, on lines of their own or
// separated by commas, the longest wait counts. If ok is false, Retry-After is missing, or none
// is well formed.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, line := range h["Retry-After"] {
		if at, err := http.ParseTime(textproto.TrimString(line)); err == nil {
			wait, ok = max(wait, min(at.Sub(Date(h, now)), pacing.MaxWait)), true
			continue
		}
		for value := range strings.SplitSeq(line, ",") {
			if seconds, well := parseSeconds(textproto.TrimString(value)); well {
				wait, ok = max(wait, seconds), true
			}
		}
	}
	return wait, ok
}

// parseSeconds returns a number of seconds, rounded up to a nanosecond.
func parseSeconds(value string) (d time.Duration, ok bool) {
	whole, fraction, _ := strings.Cut(value, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil { // it overflows
		return pacing.MaxWait, true
	}
	part, _ := strconv.ParseFloat("0."+fraction, 64)
	return min(ratelimitfield.Seconds(n)+time.Duration(math.Ceil(part*1e9)), pacing.MaxWait), true
}

// Date returns the Date of a response, or now if it has none.
func Date(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}
