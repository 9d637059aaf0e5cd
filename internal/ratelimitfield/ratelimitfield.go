// Package ratelimitfield reads and writes the fields RateLimit-Policy and
// RateLimit, which tell clients their limits
// (draft-ietf-httpapi-ratelimit-headers-11).
package ratelimitfield

import (
	"math"
	"strconv"
	"time"

	"github.com/weir-go/weir"
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

// A Policy allows Quota units in each Window, in seconds. A Window of 0 never ends. If it is
// Concurrent, it allows Quota units in flight.
type Policy struct {
	Quota, Window int
	Concurrent    bool
}

// OfBucket returns the Policy of a token bucket, with a rate in units per second. The window is
// the time to fill the bucket, in whole seconds. The quota is the refill in that time: the burst,
// or a little more.
func OfBucket(burst int, rate float64) Policy {
	p := Policy{Quota: burst}
	if rate > 0 && p.Quota > 0 {
		p.Window = wholeSeconds(span(float64(p.Quota) / rate))
		p.Quota = max(p.Quota, int(min(rate*float64(p.Window)+1e-6, most)))
	}
	return p
}

// OfWindow returns the Policy of windows with count units per period, > 0: of as
// many periods as fit into a whole number of seconds.
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
	if p.Concurrent {
		b = append(b, `;qu="`+UnitConcurrent+`"`...)
	}
	if p.Window > 0 {
		b = append(b, ";w="...)
		b = appendInt(b, p.Window)
	}
	return b
}

// Params are the names of the parameters of RateLimit: of the units left, and of the time until
// there are more.
type Params struct{ left, more string }

// Draft are the Params of draft-08 to draft-11. Next are the Params that the authors intend for a
// later draft.
var (
	Draft = Params{";r=", ";t="}
	Next  = Params{";a=", ";w="}
)

// AppendLeft appends an item of RateLimit: the quoted name of a policy, the units
// left, and the time until there are more, if it is above 0 and below weir.Never.
func (p Params) AppendLeft(b []byte, name string, left int, more time.Duration) []byte {
	b = append(appendName(b, name), p.left...)
	b = appendInt(b, left)
	if more != weir.Never && more > 0 {
		b = append(b, p.more...)
		b = appendInt(b, wholeSeconds(more))
	}
	return b
}

// UntilMore returns the time until the denied request would be allowed, or until an
// allowed one's bucket, with a rate in units per second, has one more token. It is weir.Never if
// nothing refills.
func UntilMore(burst int, rate float64, left int, d *weir.Decision) time.Duration {
	switch {
	case !d.OK:
		return d.RetryAfter
	case left == burst:
		return weir.Never // the bucket is full
	case d.ResetAfter == weir.Never || rate <= 0:
		return weir.Never
	default:
		missing := float64(max(burst-d.Remaining, 1))
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

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int {
	s := int(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// span converts seconds to a Duration, without overflow.
func span(seconds float64) time.Duration {
	if ns := seconds * 1e9; ns < math.MaxInt64/2 {
		return time.Duration(math.Ceil(ns))
	}
	return math.MaxInt64 / 2
}
