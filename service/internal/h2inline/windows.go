package h2inline

import (
	"encoding/binary"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

// A blocked is the rest of an answer that waits until the client takes more.
type blocked struct {
	id      uint32
	window  int64  // bytes of DATA that the client takes for the stream; all while the stream is relayed
	data    []byte // of DATA
	ends    bool   // the stream ends with data
	after   []byte // the trailer, or frames of the relay, that follow data
	relayed bool   // data came from the relay, which bounds it by its window of the connection
	partial bool   // the rest of the request has not come, and is not wanted
	until   time.Time
}

// send sends an answer as far as the client takes it. The rest waits, in its own memory.
func (c *conn) send(b *blocked) {
	if !c.advance(b) {
		c.blocked = append(c.blocked, &blocked{
			id: b.id, window: b.window, data: slices.Clone(b.data), ends: b.ends, after: slices.Clone(b.after), relayed: b.relayed,
			until: time.Now().Add(c.srv.settings.answer),
		})
	}
}

// advance sends DATA of an answer as far as the windows permit and then, if none is left, what follows it. It reports whether
// the whole answer is sent.
func (c *conn) advance(b *blocked) (whole bool) {
	for len(b.data) > 0 {
		n := int(min(int64(len(b.data)), b.window, c.window, int64(c.srv.settings.maxFrame)))
		if n <= 0 { // a window is empty, or was made smaller by SETTINGS
			return false
		}
		var flags http2.Flags
		if n == len(b.data) && b.ends {
			flags = http2.FlagDataEndStream
		}
		c.begin(http2.FrameData, flags, b.id, n)
		c.out = append(c.out, b.data[:n]...)
		b.data = b.data[n:]
		b.window -= int64(n)
		c.window -= int64(n)
		if b.relayed {
			c.returned += n
		}
	}
	switch {
	case len(b.after) == 0:
	case b.relayed: // whole frames
		c.out = append(c.out, b.after...)
	default: // a trailer, without the header of its frame
		from := c.beginBlock(b.id, http2.FlagHeadersEndStream)
		c.out = append(c.out, b.after...)
		c.endBlock(b.id, from)
	}
	return true
}

// unblock sends what the client takes now.
func (c *conn) unblock() {
	c.blocked = slices.DeleteFunc(c.blocked, c.advance)
}

// expire ends the streams with answers that have waited for too long.
func (c *conn) expire(now time.Time) {
	for len(c.blocked) > 0 && c.srv.settings.answer > 0 && !now.Before(c.blocked[0].until) {
		c.cut(c.blocked[0].id, http2.ErrCodeInternal) // as net/http
	}
}

// cut ends a stream with an error, also for the relay.
func (c *conn) cut(id uint32, code http2.ErrCode) {
	if c.isRelayed(id) {
		c.toRelay = binary.BigEndian.AppendUint32(appendHeader(c.toRelay, http2.FrameRSTStream, 0, id, 4), uint32(http2.ErrCodeCancel))
		delete(c.relayed, id)
	}
	c.reset(id, code)
}

// blockedOf returns the rest of the answer of a stream, or nil.
func (c *conn) blockedOf(id uint32) *blocked {
	for _, b := range c.blocked {
		if b.id == id {
			return b
		}
	}
	return nil
}

// widen adds to the window of a stream that is answered here.
func (c *conn) widen(id uint32, n int64) {
	if u := c.unreadOf(id); u != nil {
		if u.window += n; u.window > maxWindow {
			c.reset(id, http2.ErrCodeFlowControl)
		}
	}
	if p := c.parked[id]; p != nil {
		if p.window += n; p.window > maxWindow {
			c.reset(id, http2.ErrCodeFlowControl)
		}
	}
	if b := c.blockedOf(id); b != nil {
		if b.window += n; b.window > maxWindow {
			c.reset(id, http2.ErrCodeFlowControl)
			return
		}
		c.unblock()
	}
}

// resizeWindows sets the window of new streams, and changes that of others as much. It reports whether
// all are valid.
func (c *conn) resizeWindows(initial int64) bool {
	more := initial - c.initial
	c.initial = initial
	valid := true
	for _, u := range c.bodies {
		u.window += more
		valid = valid && u.window <= maxWindow
	}
	for _, p := range c.parked {
		p.window += more
		valid = valid && p.window <= maxWindow
	}
	for id := range c.relayed {
		c.relayed[id] += more
	}
	for _, b := range c.blocked {
		if !c.isRelayed(b.id) {
			b.window += more
			valid = valid && b.window <= maxWindow
		}
	}
	return valid
}

// forget drops what is left of a stream.
func (c *conn) forget(id uint32) {
	if u := c.unreadOf(id); u != nil {
		c.owed += u.frames
		c.removeUnread(u)
		unreads.Put(u)
	}
	if p := c.parked[id]; p != nil {
		p.cancel()
		delete(c.parked, id)
	}
	if b := c.blockedOf(id); b != nil {
		if b.relayed {
			c.returned += len(b.data)
		}
		c.blocked = slices.DeleteFunc(c.blocked, func(o *blocked) bool { return o == b })
	}
}
