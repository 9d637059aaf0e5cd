// Package longlived bounds and counts the exchanges that have left their
// concurrency limit: exchanges that go on after the header of their response, such
// as event streams, and stuck ones. They wait for something other than capacity.
package longlived

import (
	"cmp"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultMost is the bound of a Class if the configuration sets none.
const DefaultMost = 1000

// A Class counts the long-lived exchanges, up to a bound. It is safe for
// concurrent use.
type Class struct {
	most int64
	now  atomic.Int64
	full atomic.Uint64
}

// SetMost sets the bound, before the first Enter. If zero, DefaultMost; if
// negative, none may enter.
func (c *Class) SetMost(n int) {
	c.most = int64(max(cmp.Or(n, DefaultMost), 0))
}

// Enter adds an exchange, and reports whether the bound allows it. If so, Leave
// must follow.
func (c *Class) Enter() bool {
	if c.now.Add(1) > c.most {
		c.now.Add(-1)
		c.full.Add(1)
		return false
	}
	return true
}

// Leave removes an exchange.
func (c *Class) Leave() { c.now.Add(-1) }

// Now returns the number of exchanges.
func (c *Class) Now() int { return int(c.now.Load()) }

// Full returns how often Enter has failed.
func (c *Class) Full() uint64 { return c.full.Load() }

const eventStream = "text/event-stream"

// Stream reports whether an answer with this header is an event stream.
func Stream(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) == 0 {
		return false
	}
	value := strings.TrimSpace(values[0])
	if len(value) < len(eventStream) || !strings.EqualFold(value[:len(eventStream)], eventStream) { // the parser is slow
		return false
	}
	kind, _, err := mime.ParseMediaType(value)
	return err == nil && kind == eventStream
}

// Usual returns at least Least, and Unknown if the limiter knows nothing.
const (
	Least   = 50 * time.Millisecond
	Unknown = time.Second
)

// Usual returns the duration within which ordinary work ends, as its limiter has
// learned.
func Usual(limiter any) time.Duration {
	if l, ok := limiter.(interface{ Usual() time.Duration }); ok {
		if d := l.Usual(); d > 0 {
			return max(d, Least)
		}
	}
	return Unknown
}
