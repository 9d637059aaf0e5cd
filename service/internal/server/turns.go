package server

import (
	"slices"
	"time"

	"github.com/weir-go/weir"
)

// before returns how many stand before one who came then, and what they wait for.
// There need not be a line.
func (q *line) before(came uint64) (n, tokens int) {
	if q == nil {
		return 0, 0
	}
	n, tokens = q.n, q.tokens
	for w := q.last; w != nil && w.came > came; w = w.prev {
		n, tokens = n-1, tokens-w.n
	}
	return n, tokens
}

// push puts a waiter behind those who came before it: mostly at the end.
func (q *line) push(w *waiter) {
	w.line, w.prev = q, q.last
	for w.prev != nil && w.prev.came > w.came {
		w.prev = w.prev.prev
	}
	if w.prev == nil {
		w.next, q.first = q.first, w
	} else {
		w.next, w.prev.next = w.prev.next, w
	}
	if w.next == nil {
		q.last = w
	} else {
		w.next.prev = w
	}
	q.n++
	q.tokens += w.n
}

// remove takes a waiter out.
func (l *lines) remove(q *line, w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.line, w.prev, w.next = nil, nil, nil
	q.n--
	q.tokens -= w.n
	l.waiting.Add(-1)
	if q.first == nil {
		if delete(l.of, q.spot); q.limit > 0 {
			l.disown(q)
		}
		if q.at >= 0 {
			l.due.Remove(q.at)
		}
	}
}

// disown forgets a line with a limit of its own.
func (l *lines) disown(q *line) {
	of := l.own[q.bucket]
	if len(of) == 1 {
		delete(l.own, q.bucket)
		return
	}
	i := slices.Index(of, q)
	l.own[q.bucket] = slices.Delete(of, i, i+1)
}

// advance lets all in a line have their tokens who can, in order, and notes when
// the next one asks again. A turn that is served late is served as of its time:
// else what comes in meanwhile beyond the burst would be lost to the line.
func (l *lines) advance(q *line) {
	at := l.server.now()
	if q.at >= 0 {
		at = min(at, q.turn)
	}
	for q.first != nil {
		w := q.first
		d := l.live.buckets.take(q.bucket, l.live.buckets.number(q.bucket), l.server.epoch.Add(at), w.n, q.limit)
		switch {
		case d.OK:
			l.remove(q, w)
			w.answer <- granted{Decision: d}
		case d.RetryAfter == weir.Never: // the quota has been made smaller
			l.remove(q, w)
			w.answer <- granted{err: weir.Reject(weir.OverBurst, weir.Never)}
		default:
			if at += min(max(d.RetryAfter, 1), weir.Never-at); at > l.server.now() {
				l.schedule(q, at)
				return
			}
		}
	}
}

// schedule notes when a line asks again.
func (l *lines) schedule(q *line, at time.Duration) {
	q.turn = at
	if q.at < 0 {
		l.due.Push(q)
	} else {
		l.due.Fix(q.at)
	}
	l.set()
}

// set sets the timer to the next turn.
func (l *lines) set() {
	if l.due.Len() == 0 {
		return
	}
	in := max(l.due.Min().turn-l.server.now(), 0)
	if l.timer == nil {
		l.timer = time.AfterFunc(in, l.wake)
	} else {
		l.timer.Reset(in)
	}
}

// wake serves the lines whose turn has come.
func (l *lines) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.server.now()
	for l.due.Len() > 0 && l.due.Min().turn <= now {
		l.advance(l.due.Min())
	}
	l.set()
}

// serve lets those who wait for a bucket ask again: something has come back.
func (l *lines) serve(bucket string) {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.of[spot{bucket: bucket}]; q != nil {
		l.advance(q)
	}
	for _, q := range slices.Clone(l.own[bucket]) { // which may end meanwhile
		l.advance(q)
	}
}

// serveAll is serve for all lines: the quota has changed.
func (l *lines) serveAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.of {
		l.advance(q)
	}
}

// dismiss ends all waits with an error. If the rule is gone, nobody can come in
// afterwards.
func (l *lines) dismiss(err error, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = l.over || gone
	for _, q := range l.of {
		for q.first != nil {
			w := q.first
			l.remove(q, w)
			w.answer <- granted{err: err}
		}
	}
}
