package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/strictyaml"
)

const day = 24 * time.Hour

// week is a Rate.Period with a name, which Rate.String does not use.
const week = 7 * day

// Month is Rate.Period of a rate per calendar month. It is not shorter than any month. It has
// a nanosecond that no other period in a file has.
const Month = 31*day + 2*time.Hour + 1

// units are the periods that have names, the largest first.
var units = []struct {
	letter, word string
	is           time.Duration
}{{"d", "day", day}, {"h", "hour", time.Hour}, {"m", "minute", time.Minute}, {"s", "second", time.Second}}

// String returns the rate in the shortest format of a file: 100/s, 100/1m30s. The
// zero Rate is empty.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return strconv.Itoa(r.Count) + "/" + periodText(r.Period)
}

// periodText formats a period as a Rate does: by its name, such as s or month, if it has one, and
// else as Span does.
func periodText(d time.Duration) string {
	for _, u := range units {
		if d == u.is {
			return u.letter
		}
	}
	if d == Month {
		return "month"
	}
	return Span(d)
}

// Span formats a duration without the zeros of Duration.String: 90s is 1m30s, and 60m is 1h.
func Span(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText returns String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a count and a period: 100/s, 100/90s, 5/m, 1000/h,
// 10000/d, 100000/30d, 100/1m30s, 5/minute, 50000/week, 200000/month. There can be spaces around the
// slash. An empty text is the zero Rate.
func (r *Rate) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = Rate{}
		return nil
	}
	count, period, ok := strings.Cut(string(text), "/")
	n, err := strconv.ParseUint(strings.TrimRight(count, " "), 10, strconv.IntSize-1)
	d, known := parseSpan(strings.TrimLeft(period, " "))
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q: want a smaller count", text)
	}
	if ok && err == nil && !known && tooLong(strings.TrimLeft(period, " ")) {
		return fmt.Errorf("%q: want a period of at most %s", text, periodText(maxPeriod))
	}
	if !ok || err != nil || !known {
		return fmt.Errorf("%q: want a whole number, a slash and a period, such as 100/s, 5/m, 1000/h, 10000/d or 100/90s", text)
	}
	*r = Rate{Count: int(n), Period: d}
	return nil
}

// parseSpan reads a period > 0. The number 1 may be left out.
func parseSpan(text string) (d time.Duration, ok bool) {
	for _, u := range units {
		if text == u.letter || text == u.word {
			return u.is, true
		}
	}
	switch text {
	case "week":
		return week, true
	case "month":
		return Month, true
	}
	if number, days := strings.CutSuffix(text, "d"); days {
		n, err := strconv.ParseUint(number, 10, 16) // 65535 days are no overflow
		return time.Duration(n) * day, err == nil && n > 0
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}

// tooLong reports whether a period is too long for parseSpan.
func tooLong(text string) bool {
	number, days := strings.CutSuffix(text, "d")
	_, err := strconv.ParseUint(number, 10, 16)
	return days && errors.Is(err, strconv.ErrRange) || strictyaml.TooLong(text)
}

// String returns auto or the number.
func (l Limit) String() string {
	if l == Auto {
		return "auto"
	}
	return strconv.Itoa(int(l))
}

// MarshalText returns String.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads auto or a whole number >= 1.
func (l *Limit) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*l = Auto
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, strconv.IntSize-1)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: want a whole number >= 1, or auto", text)
	}
	*l = Limit(n)
	return nil
}

// Text returns the quota as pages show it, such as "100/s burst 200"; empty without a rate.
func (q Quota) Text() string {
	if q.Rate.Period <= 0 {
		return ""
	}
	text := q.Rate.String()
	switch {
	case q.Algorithm == Calendar:
		return strconv.Itoa(q.Rate.Count) + "/" + q.Unit() + " calendar " + q.ZoneName()
	case q.Algorithm.Windows():
		return text + " " + string(q.Algorithm)
	case q.Burst > 0 && q.Burst != q.Rate.Count:
		return text + " burst " + strconv.Itoa(q.Burst)
	}
	return text
}
