package operator

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Rate returns a rate per second, rounded to a hundredth. It is zero if d is zero.
func Rate(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return math.Round(100*float64(n)/d.Seconds()) / 100
}

// Increase returns the increase of a counter. A lower value means that it was reset.
func Increase[N uint64 | float64](now, then N) N {
	if now < then {
		return now
	}
	return now - then
}

// grouped writes 1,234.
var grouped = message.NewPrinter(language.English)

// Figure formats a rate as the pages do.
func Figure(v float64) string {
	digits := 0
	switch {
	case v == 0:
	case v < 1:
		digits = 2
	case v < 10:
		digits = 1
	}
	v = math.Nextafter(v, math.Inf(1)) // a half is rounded up, as in JavaScript
	if digits == 0 {
		return grouped.Sprint(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Span formats a time for reading.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", (d+time.Millisecond-1)/time.Millisecond)
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", (d+time.Minute-1)/time.Minute)
	default:
		return fmt.Sprintf("%d h", (d+time.Hour-1)/time.Hour)
	}
}
