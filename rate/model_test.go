package rate_test

import (
	"fmt"
	"slices"
	"time"
)

// A model is a Limiter as dumb as can be: it counts what is there, in
// milliardths of a token, and all calls that wait stand in a list. Rates are whole
// numbers a second, or zero.
type model struct {
	now      time.Duration
	rate     int64
	burst    int
	has      int64 // not less the tokens of the waiting calls
	maxDebt  int   // as in Config
	maxQueue int
	maxWait  time.Duration
	line     []modelWaiter
	said     []said
	ties     map[time.Duration]bool // instants at which something has happened
	tied     bool                   // two things at one instant: their order is open
}

type modelWaiter struct {
	who      string
	n        int
	patience time.Duration // the instant until which its context is alive
	deadline time.Duration // patience or MaxWait, whichever is sooner
	why      string        // to refuse it, if its turn would come later
}

const one = int64(1e9) // token

func (m *model) say(who, what string) {
	m.said = append(m.said, said{m.now, who + " " + what})
}

// happens notes that something happens now.
func (m *model) happens() {
	m.tied = m.tied || m.ties[m.now]
	m.ties[m.now] = true
}

// until returns how long it takes until there are n milliardths.
func (m *model) until(n int64) time.Duration {
	switch {
	case n <= m.has:
		return 0
	case m.rate == 0:
		return never
	}
	return time.Duration((n - m.has + m.rate - 1) / m.rate)
}

const never = time.Duration(1<<63 - 1)

// advance lives until the instant, in order: turns come, and contexts end.
func (m *model) advance(to time.Duration) {
	for {
		next, who := to, -1
		for i, w := range m.line {
			if w.patience < next {
				next, who = w.patience, i
			}
		}
		if len(m.line) > 0 {
			if d := m.until(int64(m.line[0].n) * one); d != never && m.now+d <= next {
				m.tied = m.tied || m.now+d == next
				next, who = m.now+d, -2
			}
		}
		m.refill(next)
		switch {
		case who == -1:
			return
		case who >= 0:
			m.happens()
			m.say(m.line[who].who, "deadline")
			m.line = slices.Delete(m.line, who, who+1)
		default:
			m.happens()
		}
		m.serve()
	}
}

func (m *model) refill(to time.Duration) {
	m.has += m.rate * int64(to-m.now)
	m.now = to
	m.cap()
}

func (m *model) cap() {
	if len(m.line) == 0 {
		m.has = min(m.has, int64(m.burst)*one)
	}
}

func (m *model) serve() {
	for len(m.line) > 0 && int64(m.line[0].n)*one <= m.has {
		m.has -= int64(m.line[0].n) * one
		m.say(m.line[0].who, "go")
		m.line = m.line[1:]
	}
	m.cap()
}

// stoodFor returns the tokens that the waiting calls stand for.
func (m *model) stoodFor() (n int64) {
	for _, w := range m.line {
		n += int64(w.n) * one
	}
	return n
}

func (m *model) tokens() int64 { return m.has - m.stoodFor() }

func (m *model) allow(n int) bool {
	if n > m.burst || m.tokens() < int64(n)*one {
		return false
	}
	m.has -= int64(n) * one
	return true
}

func (m *model) wait(who string, n int, patience time.Duration) {
	turn := m.until(m.stoodFor() + int64(n)*one)
	patience += m.now
	w := modelWaiter{who, n, patience, patience, "too_late"}
	if m.maxWait > 0 && m.now+m.maxWait < patience {
		w.deadline, w.why = m.now+m.maxWait, "over_rate"
	}
	switch {
	case n > m.burst:
		m.say(who, "over_burst")
	case m.allow(n):
		m.say(who, "go")
	case m.maxQueue == 0:
		m.say(who, "over_rate")
	case len(m.line) == m.maxQueue:
		m.say(who, "queue_full")
	case turn > w.deadline-m.now:
		m.say(who, w.why)
	default:
		m.line = append(m.line, w)
	}
}

func (m *model) leave(who string) {
	for i, w := range m.line {
		if w.who == who {
			m.line = slices.Delete(m.line, i, i+1)
			m.say(who, "cancel")
			break
		}
	}
	m.serve()
}

// settle charges n more, in whole tokens down to the bound, or gives back. It
// returns how many it has charged.
func (m *model) settle(n int) int {
	if n > 0 {
		debt := m.maxDebt
		if debt == 0 {
			debt = m.burst
		}
		n = min(n, max(int((m.has+int64(max(debt, 0))*one)/one), 0))
	}
	m.has -= max(int64(n)*one, min(m.has-int64(m.burst)*one, 0)) // a bucket that is full flows over
	if n > 0 {
		m.dropLate()
	}
	m.serve()
	return n
}

func (m *model) change(rate int64, burst int) {
	m.rate, m.burst = rate, burst
	m.serve()
	m.line = slices.DeleteFunc(m.line, func(w modelWaiter) bool {
		if w.n > burst {
			m.say(w.who, "over_burst")
		}
		return w.n > burst
	})
	m.dropLate()
	m.serve()
}

// dropLate refuses the calls that would have their turn too late.
func (m *model) dropLate() {
	before := int64(0)
	var line []modelWaiter
	for _, w := range m.line {
		d := m.until(before + int64(w.n)*one)
		if d == never || d > w.deadline-m.now {
			m.say(w.who, w.why)
		} else {
			before += int64(w.n) * one
			line = append(line, w)
		}
	}
	m.line = line
}

func (m *model) String() string {
	return fmt.Sprintf("%v: %v/s, burst %d, holds %d, %+v", m.now, m.rate, m.burst, m.has, m.line)
}
