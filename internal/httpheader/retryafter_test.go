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
		{"seconds beyond all numbers", strings.Repeat("9", 40), "", pacing.MaxWait, true},
		{"a date, by our clock", "Fri, 02 Jan 2026 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date, by the clock of who sent it", "Fri, 02 Jan 2026 03:04:35 GMT", "Fri, 02 Jan 2026 03:04:25 GMT", 10 * time.Second, true},
		{"a date by a clock that is ahead of ours", "Fri, 02 Jan 2026 05:00:10 GMT", "Fri, 02 Jan 2026 05:00:00 GMT", 10 * time.Second, true},
		{"a date beside one that is no date", "Fri, 02 Jan 2026 03:04:35 GMT", "now", 30 * time.Second, true},
		{"a date in the past is no wait", "Fri, 02 Jan 2026 03:00:00 GMT", "", 0, true},
		{"a date in a far century", "Fri, 02 Jan 2986 03:00:00 GMT", "", pacing.MaxWait, true},
		{"a date of RFC 850", "Friday, 02-Jan-26 03:04:35 GMT", "", 30 * time.Second, true},
		{"a date of asctime", "Fri Jan  2 03:04:35 2026", "", 30 * time.Second, true},
		{"a fraction", "1.5", "", 1500 * time.Millisecond, true},
		{"a fraction alone", ".25", "", 250 * time.Millisecond, true},
		{"a fraction without digits", "2.", "", 2 * time.Second, true},
		{"less than a nanosecond is one", "0.0000000001", "", 1, true},
		{"a fraction beyond all numbers", strings.Repeat("9", 40) + ".5", "", pacing.MaxWait, true},
		{"several, joined by a proxy", "5, 120,7", "", 2 * time.Minute, true},
		{"one of them malformed", "5, x", "", 5 * time.Second, true},
		{"two points", "1.5.5", "", 0, false},
		{"a point", ".", "", 0, false},
		{"commas", ",,", "", 0, false},
		{"an exponent", "1e3", "", 0, false},
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
	for _, test := range []struct {
		rule  string
		lines []string
		want  time.Duration
		ok    bool
	}{
		{"the longest counts", []string{"1", "2"}, 2 * time.Second, true},
		{"in any order", []string{"2", "1"}, 2 * time.Second, true},
		{"also a date", []string{"2", "Fri, 02 Jan 2026 03:04:35 GMT"}, 30 * time.Second, true},
		{"a date that is past", []string{"Fri, 02 Jan 2026 03:04:00 GMT", "2"}, 2 * time.Second, true},
		{"one of them malformed", []string{"soon", "2"}, 2 * time.Second, true},
		{"all of them malformed", []string{"soon", ""}, 0, false},
	} {
		if got, ok := RetryAfter(http.Header{"Retry-After": test.lines}, now); got != test.want || ok != test.ok {
			t.Errorf("of several, %s: %v, %v: want %v, %v", test.rule, got, ok, test.want, test.ok)
		}
	}
}
