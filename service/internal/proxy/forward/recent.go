package forward

import (
	"sync"
	"time"

	"github.com/weir-go/weir/internal/longlived"
)

// recentForwards lists the forwards that have sent their request within longlived.Least, the oldest first.
// One timer serves them all: most end before they would need one. The zero recent is empty.
type recentForwards struct {
	now func() time.Duration

	mu          sync.Mutex // guards the fields below, and recentLinks
	first, last *forward
	timer       *time.Timer // calls checkAlarm; nil before the first forward
	armed       bool        // the timer runs
}

// recentLinks are the place of a forward.
type recentLinks struct {
	listed     bool
	prev, next *forward
	since      time.Duration
}

// add adds a forward that sends its request now. After longlived.Least, its ring is called, unless it
// is removed before.
func (l *recentForwards) add(f *forward, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.links = recentLinks{listed: true, prev: l.last, since: now}
	if l.last == nil {
		l.first = f
	} else {
		l.last.links.next = f
	}
	l.last = f
	if !l.armed {
		l.armLocked(now)
	}
}

// remove removes a forward, if it is there.
func (l *recentForwards) remove(f *forward) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.links.listed {
		l.removeLocked(f)
	}
}

func (l *recentForwards) removeLocked(f *forward) {
	if p := f.links.prev; p == nil {
		l.first = f.links.next
	} else {
		p.links.next = f.links.next
	}
	if n := f.links.next; n == nil {
		l.last = f.links.prev
	} else {
		n.links.prev = f.links.prev
	}
	f.links = recentLinks{}
}

// armLocked lets the timer fire for the first forward. If that is removed, it fires all the same.
func (l *recentForwards) armLocked(now time.Duration) {
	d := l.first.links.since + longlived.Least - now
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.checkDue)
	} else {
		l.timer.Reset(d)
	}
}

// checkDue is called when the timer fires.
func (l *recentForwards) checkDue() {
	for _, f := range l.takeDue() {
		f.checkAlarm()
	}
}

// takeDue removes the forwards that have been in the list for longlived.Least.
func (l *recentForwards) takeDue() (over []*forward) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for f := l.first; f != nil && f.links.since+longlived.Least <= now; f = l.first {
		l.removeLocked(f)
		over = append(over, f)
	}
	if l.armed = l.first != nil; l.armed {
		l.armLocked(now)
	}
	return over
}
