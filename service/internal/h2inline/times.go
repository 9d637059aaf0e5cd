package h2inline

import (
	"net/http"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// times are the instants of a connection. They decide when it is told to be idle, asked for a sign of
// life, and closed. Deadlines are set seldom, because that takes as long as a decision.
type times struct {
	began, read time.Time
	active      time.Time // there was a stream, or a request of HTTP/1.1
	partial     time.Time // a part of a request of HTTP/1.1 came; zero if there is none in the buffer
	told        time.Time // ConnState was called
	pinged      time.Time // zero if something came after the last PING
	parted      time.Time // the client was asked to leave
	ending      time.Time // the last stream after the last GOAWAY has ended
	wakes       time.Time // the deadline of reads
	writes      time.Time // the deadline of writes
}

const (
	helloTime = 2 * time.Second // for the first SETTINGS, as in net/http
	farewell  = time.Second     // for a client to take the last frames, as in net/http
)

// tellEvery is how often a connection that answers requests is told to be in use.
const tellEvery = time.Second

// open returns the number of streams that are not answered.
func (c *conn) open() int { return len(c.relayed) + len(c.blocked) + len(c.bodies) + len(c.parked) }

// tell tells ConnState what is new. A connection on which all streams are answered at once is idle; it is told
// to have been active once a second.
func (c *conn) tell(now time.Time) {
	busy := c.open() > 0
	if busy {
		c.active = now
	}
	if c.ending.IsZero() && (c.failed || c.leaving && !busy) {
		c.ending = now
	}
	note := c.srv.http.ConnState
	if busy == c.busy && (busy || c.active.Sub(c.told) < tellEvery) {
		return
	}
	if c.told = now; !c.busy {
		note(c.nc, http.StateActive)
	}
	if c.busy = busy; !busy {
		note(c.nc, http.StateIdle)
	}
}

// arm sets the deadline of reads to the instant when something is due, or a little earlier.
func (c *conn) arm(now time.Time) {
	at, exact := c.due(now)
	if !exact && !c.wakes.After(at) && c.wakes.After(at.Add(-at.Sub(now)/4)) {
		return
	}
	c.wakes = at
	_ = c.nc.SetReadDeadline(at)
}

// due returns the instant when wake is needed.
func (c *conn) due(now time.Time) (at time.Time, exact bool) {
	if c.http1 {
		return c.dueHTTP1(now)
	}
	s := &c.srv.settings
	switch {
	case !c.ending.IsZero():
		return c.ending.Add(farewell), true
	case !c.greeted:
		return c.began.Add(helloTime), true
	case len(c.bodies) > 0 || c.spare:
		return now.Add(soon), true
	case !c.parted.IsZero() && !c.leaving:
		return c.parted.Add(farewell), true
	}
	at = now.Add(time.Hour)
	if s.idle > 0 && c.open() == 0 {
		at = c.active.Add(s.idle)
	}
	if len(c.blocked) > 0 && s.answer > 0 && c.blocked[0].until.Before(at) {
		at = c.blocked[0].until
	}
	if s.ping > 0 {
		ping := c.read.Add(s.ping)
		if !c.pinged.IsZero() {
			ping = c.pinged.Add(s.pong)
		}
		if ping.Before(at) {
			at = ping
		}
	}
	return at, false
}

// wake does what is due after a read that brought nothing. An error means that the connection ends.
func (c *conn) wake() error {
	defer c.writeRelay()
	c.mu.Lock()
	defer c.mu.Unlock()
	now, s := time.Now(), &c.srv.settings
	reached := func(from time.Time, d time.Duration) bool { return !from.IsZero() && d > 0 && now.Sub(from) >= d }
	switch {
	case reached(c.ending, farewell), !c.greeted && reached(c.began, helloTime), reached(c.pinged, s.pong):
		return os.ErrDeadlineExceeded
	case reached(c.parted, farewell):
		c.goAway(http2.ErrCodeNo)
	case c.open() == 0 && reached(c.active, s.idle):
		c.part(now)
	case c.pinged.IsZero() && reached(c.read, s.ping):
		c.pinged = now
		c.begin(http2.FramePing, 0, 0, 8)
		c.out = append(c.out, "weir h2?"...)
	}
	c.expire(now)
	for len(c.bodies) > 0 {
		c.relayUnread(c.bodies[0], false)
	}
	c.toRelay = c.appendReturned(c.toRelay)
	c.useBig(c.needsBig())
	c.settle(now)
	return c.err
}

// armWrite sets the deadline of writes to what a client may take, or up to a quarter more.
func (c *conn) armWrite(now time.Time) {
	d := c.srv.settings.write
	if d <= 0 || c.writes.Sub(now) >= d {
		return
	}
	c.writes = now.Add(d + d/4)
	_ = c.nc.SetWriteDeadline(c.writes)
}

// leave asks the client to leave.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.handed:
	case !c.greeted && c.unacked == 0: // the preface has not come, or it is HTTP/1.1
		_ = c.nc.Close()
	case c.err == nil:
		now := time.Now()
		c.part(now)
		c.settle(now)
	}
}
