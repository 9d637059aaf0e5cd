// Package ratelimitfield writes the items of the fields RateLimit-Policy and
// RateLimit, by which clients learn what they may yet ask for
// (draft-ietf-httpapi-ratelimit-headers-10).
package ratelimitfield

import (
	"math"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// Quote returns a name of printable ASCII as a String of RFC 9651.
func Quote(name string) string {
	b := []byte{'"'}
	for i := range len(name) {
		if name[i] == '"' || name[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, name[i])
	}
	return string(append(b, '"'))
}

// A Policy is what may be asked for: Quota units in any Window of so many
// seconds. A Window of 0 is never over.
type Policy struct{ Quota, Window int }

// OfBucket returns the Policy of a token bucket: in as many whole seconds as it
// takes to fill it, what comes in meanwhile, which is all that it holds or a
// little more.
func OfBucket(q *gcra.Quota) Policy {
	p := Policy{Quota: q.Burst()}
	if rate := q.Rate(); rate > 0 && p.Quota > 0 {
		p.Window = wholeSeconds(span(float64(p.Quota) / rate))
		p.Quota = max(p.Quota, int(min(rate*float64(p.Window)+1e-6, most)))
	}
	return p
}

// OfWindow returns the Policy of windows of a period, > 0, with so many units
// in each: of as many of them as a whole number of seconds has room for.
func OfWindow(count int, period time.Duration) Policy {
	p := Policy{Quota: count, Window: wholeSeconds(period)}
	if windows := time.Duration(p.Window) * time.Second / period; windows > 1 {
		p.Quota = int(min(float64(count)*float64(windows), most))
	}
	return p
}

// Append appends the Policy, with its quoted name, as an item of RateLimit-Policy.
func (p Policy) Append(b []byte, name string) []byte {
	b = append(appendName(b, name), ";q="...)
	b = appendInt(b, p.Quota)
	if p.Window > 0 {
		b = append(b, ";w="...)
		b = appendInt(b, p.Window)
	}
	return b
}

// AppendLeft appends an item of RateLimit: the quoted name of a policy, what is
// left of it, and when there is more, if that is after now and before weir.Never.
func AppendLeft(b []byte, name string, left int, more time.Duration) []byte {
	b = append(appendName(b, name), ";r="...)
	b = appendInt(b, left)
	if more != weir.Never && more > 0 {
		b = append(b, ";t="...)
		b = appendInt(b, wholeSeconds(more))
	}
	return b
}

// UntilMore returns how long it takes until a bucket, of which so much is left,
// has more: until a request that was denied would be allowed, or until there is
// one more token. It is weir.Never if nothing comes.
func UntilMore(q *gcra.Quota, left int, d *weir.Decision) time.Duration {
	switch rate := q.Rate(); {
	case !d.OK:
		return d.RetryAfter
	case left == q.Burst():
		return weir.Never // it has all come back
	case d.ResetAfter == weir.Never || rate <= 0:
		return weir.Never
	default:
		missing := float64(max(q.Burst()-d.Remaining, 1))
		return max(d.ResetAfter-span((missing-1)/rate), 1)
	}
}

func appendName(b []byte, name string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return append(b, name...)
}

// most is the greatest Integer of RFC 9651.
const most = 999_999_999_999_999

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, min(int64(n), most), 10) }

// wholeSeconds are whole ones, rounded up.
func wholeSeconds(d time.Duration) int {
	s := int(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// span is a number of seconds as a Duration, the longest at most.
func span(seconds float64) time.Duration {
	if ns := seconds * 1e9; ns < math.MaxInt64/2 {
		return time.Duration(math.Ceil(ns))
	}
	return math.MaxInt64 / 2
}
