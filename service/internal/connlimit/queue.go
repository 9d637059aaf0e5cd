package connlimit

// A queue holds connections without a request, the one that is idle for longest first.
// A connection is in two queues: that of its Client and that of the Listener.
type queue struct{ first, last *conn }

// A queueKind tells the two queues of a connection apart.
type queueKind uint8

const (
	ofClient queueKind = iota
	ofListener
	queueKinds
)

type links struct{ previous, next *conn }

func (q *queue) push(c *conn, kind queueKind) {
	c.links[kind] = links{previous: q.last}
	if q.last == nil {
		q.first = c
	} else {
		q.last.links[kind].next = c
	}
	q.last = c
}

func (q *queue) remove(c *conn, kind queueKind) {
	l := c.links[kind]
	if l.previous == nil {
		q.first = l.next
	} else {
		l.previous.links[kind].next = l.next
	}
	if l.next == nil {
		q.last = l.previous
	} else {
		l.next.links[kind].previous = l.previous
	}
	c.links[kind] = links{}
}
