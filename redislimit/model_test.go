//go:build system

package redislimit_test

import (
	"math"
	"sort"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/window"
)

// A counted key has the state of one key in memory, by packages gcra and window.
type counted interface {
	// fits returns how many of n can be taken within a limit and a debt; less than zero if
	// there is no room even for none.
	fits(now time.Duration, n, limit, debt int) int
	// take takes n, which fit, or gives back -n. It returns how many the script tells.
	take(now time.Duration, n int) int
	// deny counts a denied request of n.
	deny(now time.Duration, n, limit int)
	// look returns what remains within a limit, and when nothing counts any more.
	look(now time.Duration, limit int) weir.Decision
	// retry returns the wait for the least tokens of a Take that is denied.
	retry(now time.Duration, ask *redisscript.Take, limit int) time.Duration
	used(now time.Duration) int
}

// A tokenModel is a token bucket.
type tokenModel struct {
	q        gcra.Quota
	interval time.Duration // between tokens
	b        gcra.Bucket
}

func (m *tokenModel) fits(now time.Duration, n, limit, debt int) int {
	if n == 0 {
		limit = m.q.Burst()
	}
	return min(n, int(math.Floor(m.q.Tokens(m.b, now)))-m.q.Burst()+limit+debt)
}

func (m *tokenModel) take(now time.Duration, n int) (took int) {
	if n < 0 {
		m.b = m.q.Refund(m.b, -n)
		return n
	}
	m.b, took = m.q.Charge(m.b, now, n, 1<<20)
	return took
}

func (m *tokenModel) deny(time.Duration, int, int) {}

func (m *tokenModel) look(now time.Duration, limit int) weir.Decision {
	_, d := m.q.Take(m.b, now, 0)
	d.Remaining = max(d.Remaining-m.q.Burst()+limit, 0)
	return d
}

func (m *tokenModel) retry(now time.Duration, ask *redisscript.Take, limit int) time.Duration {
	if ask.Least > limit {
		return weir.Never
	}
	if ask.N == 0 {
		limit = m.q.Burst()
	}
	_, d := m.q.Take(m.b, now, 0)
	return d.ResetAfter - time.Duration(limit+ask.Debt-ask.Least)*m.interval
}

func (m *tokenModel) used(now time.Duration) int {
	return m.q.Burst() - int(math.Floor(m.q.Tokens(m.b, now)))
}

// A windowModel is a window.
type windowModel struct {
	kind   redisscript.WindowKind
	period time.Duration
	c      window.Count
}

// quota returns the Quota for a limit. A window that begins with its first event begins now,
// if none has begun.
func (m *windowModel) quota(now time.Duration, limit int) window.Quota {
	q := window.Quota{Limit: limit, Period: m.period}
	switch m.kind {
	case redisscript.FixedWindow:
		q.Calendar = window.Every(m.period, now)
	case redisscript.ClockWindow:
		q.Calendar = window.Every(m.period, 0)
	case redisscript.SlidingWindow:
		q.Sliding = true
	}
	return q
}

func (m *windowModel) fits(now time.Duration, n, limit, debt int) int {
	if n == 0 && m.kind != redisscript.ClockWindow {
		return 0
	}
	return min(n, limit+debt-m.used(now))
}

func (m *windowModel) take(now time.Duration, n int) (took int) {
	q := m.quota(now, 0)
	if n >= 0 {
		m.c, took = q.Charge(m.c, now, n, 1<<43)
		return took
	}
	used := m.c.Used
	if m.kind == redisscript.SlidingWindow || now < m.c.At {
		if m.kind == redisscript.FixedWindow { // the window of the count
			q.Calendar = window.Every(m.period, m.c.At)
		}
		m.c = q.Refund(m.c, now, -n)
	}
	took = m.c.Used - used
	if m.kind == redisscript.FixedWindow && m.c.Used == 0 {
		m.c = window.Count{}
	}
	return took
}

func (m *windowModel) deny(now time.Duration, n, limit int) {
	if m.kind == redisscript.ClockWindow {
		q := m.quota(now, limit)
		m.c, _ = q.Charge(m.c, now, n, math.MaxInt32)
	}
}

func (m *windowModel) look(now time.Duration, limit int) weir.Decision {
	q := m.quota(now, limit)
	_, d := q.Take(m.c, now, 0)
	if _, end := q.Calendar.At(now); m.kind == redisscript.ClockWindow {
		d.ResetAfter = end - now
	}
	return d
}

func (m *windowModel) retry(now time.Duration, ask *redisscript.Take, limit int) time.Duration {
	q := m.quota(now, limit+ask.Debt)
	if ask.Least > 0 {
		_, d := q.Take(m.c, now, ask.Least)
		return d.RetryAfter
	}
	return time.Duration(sort.Search(int(2*m.period), func(wait int) bool { return m.used(now+time.Duration(wait)) <= q.Limit }))
}

func (m *windowModel) used(now time.Duration) int {
	q := m.quota(now, 1<<43)
	_, d := q.Take(m.c, now, 0)
	return 1<<43 - d.Remaining
}
