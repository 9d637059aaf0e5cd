package forward

import (
	"sync"
	"time"

	"github.com/weir-go/weir/internal/longlived"
)

// recent lists the exchanges that have sent their request within longlived.Least, the oldest first.
// One timer serves them all: most end before they would need one. The zero recent is empty.
type recent struct {
	now func() time.Duration

	mu          sync.Mutex // guards the fields below, and recentLinks
	first, last *exchange
	timer       *time.Timer // calls ring; nil before the first exchange
	armed       bool        // the timer runs
}

// recentLinks are the place of an exchange.
type recentLinks struct {
	listed     bool
	prev, next *exchange
	since      time.Duration
}

// add adds an exchange that sends its request now. After longlived.Least, its ring is called, unless it
// is removed before.
func (l *recent) add(x *exchange, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.links = recentLinks{listed: true, prev: l.last, since: now}
	if l.last == nil {
		l.first = x
	} else {
		l.last.links.next = x
	}
	l.last = x
	if !l.armed {
		l.armLocked(now)
	}
}

// remove removes an exchange, if it is there.
func (l *recent) remove(x *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.links.listed {
		l.removeLocked(x)
	}
}

func (l *recent) removeLocked(x *exchange) {
	if p := x.links.prev; p == nil {
		l.first = x.links.next
	} else {
		p.links.next = x.links.next
	}
	if n := x.links.next; n == nil {
		l.last = x.links.prev
	} else {
		n.links.prev = x.links.prev
	}
	x.links = recentLinks{}
}

// armLocked lets the timer fire for the first exchange. If that is removed, it fires all the same.
func (l *recent) armLocked(now time.Duration) {
	d := l.first.links.since + longlived.Least - now
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.ring)
	} else {
		l.timer.Reset(d)
	}
}

// ring is called when the timer fires.
func (l *recent) ring() {
	for _, x := range l.take() {
		x.ring()
	}
}

// take removes the exchanges that have been in the list for longlived.Least.
func (l *recent) take() (over []*exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for x := l.first; x != nil && x.links.since+longlived.Least <= now; x = l.first {
		l.removeLocked(x)
		over = append(over, x)
	}
	if l.armed = l.first != nil; l.armed {
		l.armLocked(now)
	}
	return over
}
