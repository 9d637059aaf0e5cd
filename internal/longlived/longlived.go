// Package longlived counts exchanges that go on although their answer has begun,
// or that are stuck. They hold no unit of a limit on work in flight, since what
// they wait for is not capacity. It knows when that is so, and bounds them.
package longlived

import (
	"mime"
	"net/http"
	"sync/atomic"
	"time"
)

// DefaultMost bounds the exchanges of a Class where a configuration leaves it
// open.
const DefaultMost = 1000

// A Class counts the long-lived exchanges, up to a bound. It is safe for
// concurrent use.
type Class struct {
	most int64
	now  atomic.Int64
	full atomic.Uint64
}

// SetMost sets the bound. If zero, DefaultMost; if negative, there is none of
// them. It is for the time before the first Enter.
func (c *Class) SetMost(n int) {
	if n == 0 {
		n = DefaultMost
	}
	c.most = int64(max(n, 0))
}

// Enter reports whether there is room for one more, and takes it. Leave must
// follow.
func (c *Class) Enter() bool {
	if c.now.Add(1) > c.most {
		c.now.Add(-1)
		c.full.Add(1)
		return false
	}
	return true
}

// Leave is the end of an exchange.
func (c *Class) Leave() { c.now.Add(-1) }

// Now returns how many there are.
func (c *Class) Now() int { return int(c.now.Load()) }

// Full returns how often there was no room.
func (c *Class) Full() uint64 { return c.full.Load() }

// Stream reports whether an answer with this header is an event stream.
func Stream(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) == 0 || len(values[0]) < len("text/event-stream") {
		return false
	}
	kind, _, err := mime.ParseMediaType(values[0])
	return err == nil && kind == "text/event-stream"
}

// Ordinary work is given Least, or Unknown where nothing is known of it.
const (
	Least   = 50 * time.Millisecond
	Unknown = time.Second
)

// Usual returns how long ordinary work takes at most, as far as its limiter
// knows.
func Usual(limiter any) time.Duration {
	if l, ok := limiter.(interface{ Usual() time.Duration }); ok {
		if d := l.Usual(); d > 0 {
			return max(d, Least)
		}
	}
	return Unknown
}
