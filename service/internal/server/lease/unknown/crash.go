// Package unknown tells which leases a node may not know, because another process granted them: one that has
// crashed, or the last owner of a slot.
package unknown

import (
	"slices"
	"sync/atomic"
	"time"
)

// A Crash is the end of a process without saving its state. Leases that the process
// granted since it last saved are unknown, until they must have expired.
type Crash struct {
	start   time.Duration
	longest map[string]time.Duration // the longest time to live of leases, by rule
	until   atomic.Int64             // when all rules grant leases again
	spans   []Span
}

// A Span is the fencing tokens after one and before another. Of leases outside of it,
// it is known whether they are held.
type Span struct{ After, Before uint64 }

// maxSpans bounds the crashes, each during the recovery from the one before, of which the leases
// are told apart.
const maxSpans = 64

// NewCrash returns the crash that was noticed at an instant. longest has the longest times to live that the
// process had saved, by rule.
func NewCrash(start time.Duration, longest map[string]time.Duration) *Crash {
	c := &Crash{start: start, longest: longest}
	for _, ttl := range longest {
		c.extend(start + ttl)
	}
	return c
}

// Reopens returns when a rule grants leases again: when those of the process must have expired. ttl is the longest time
// to live under the rule now.
func (c *Crash) Reopens(rule string, ttl time.Duration) time.Duration {
	at := c.start + max(ttl, c.longest[rule])
	c.extend(at)
	return at
}

// Until returns when all rules grant leases again.
func (c *Crash) Until() time.Duration { return time.Duration(c.until.Load()) }

// extend makes the recovery last until an instant.
func (c *Crash) extend(until time.Duration) {
	for {
		was := c.until.Load()
		if was >= int64(until) || c.until.CompareAndSwap(was, int64(until)) {
			return
		}
	}
}

// Resume says that the process had saved a token, and that the next one begins after another. If the process
// was recovering itself, the leases of earlier ones are unknown, too.
func (c *Crash) Resume(saved, next uint64, earlier []Span) {
	last := Span{saved, next + 1}
	c.spans = slices.Clone(earlier)
	if n := len(c.spans); n > 0 && (c.spans[n-1].Before == last.After+1 || n == maxSpans) {
		c.spans[n-1].Before = last.Before
	} else {
		c.spans = append(c.spans, last)
	}
}

// Spans returns the tokens of the unknown leases. They must not be changed.
func (c *Crash) Spans() []Span { return c.spans }

// Has reports whether the lease with a token is one of the unknown ones.
func (c *Crash) Has(token uint64) bool {
	return slices.ContainsFunc(c.spans, func(s Span) bool { return s.After < token && token < s.Before })
}
