package httpheader

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pacing"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		rule, value, date string
		want              time.Duration
		ok                bool
	}{
		{"seconds", "120", "", 2 * time.Minute, true},
		{"zero is no wait", "0", "", 0, true},
		{"blanks around it", " 5\t", "", 5 * time.Second, true},
		{"seconds beyond all numbers", strings.Repeat("9", 40), "", pacing.Forever, true},
		{"a date, by our clock", "Fri, 02 Jan 2026 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date, by the clock of who sent it", "Fri, 02 Jan 2026 03:04:35 GMT", "Fri, 02 Jan 2026 03:04:25 GMT", 10 * time.Second, true},
		{"a date by a clock that is ahead of ours", "Fri, 02 Jan 2026 05:00:10 GMT", "Fri, 02 Jan 2026 05:00:00 GMT", 10 * time.Second, true},
		{"a date beside one that is no date", "Fri, 02 Jan 2026 03:04:35 GMT", "now", 30 * time.Second, true},
		{"a date in the past is no wait", "Fri, 02 Jan 2026 03:00:00 GMT", "", 0, true},
		{"a date in a far century", "Fri, 02 Jan 2986 03:00:00 GMT", "", pacing.Forever, true},
		{"a date of RFC 850", "Friday, 02-Jan-26 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date of asctime", "Fri Jan  2 03:04:35 2026", "", 30 * time.Second, true},
		{"a fraction", "1.5", "", 0, false},
		{"a sign", "-1", "", 0, false},
		{"a unit", "5s", "", 0, false},
		{"nothing", "", "", 0, false},
	} {
		h := http.Header{"Retry-After": {test.value}}
		if test.date != "" {
			h.Set("Date", test.date)
		}
		if got, ok := RetryAfter(h, now); got != test.want || ok != test.ok {
			t.Errorf("%s: %v, %v: want %v, %v", test.rule, got, ok, test.want, test.ok)
		}
	}
	if _, ok := RetryAfter(http.Header{}, now); ok {
		t.Error("there is no Retry-After, and one was found")
	}
	if _, ok := RetryAfter(http.Header{"Retry-After": {"1", "2"}}, now); ok {
		t.Error("two of them: which one binds is not known, and one was heeded")
	}
}
