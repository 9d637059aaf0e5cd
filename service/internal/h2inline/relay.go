package h2inline

import (
	"bufio"
	"encoding/binary"
	"net"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A relay is a connection in memory to the http.Server, for the streams that are not answered here. They have
// the same numbers there. Header blocks for it are literals, and it is told that the client
// has no table, so that those of its answers are too.
type relay struct {
	nc      net.Conn
	block   []byte // the frames of a header block that has not come to its end
	acks    int    // SETTINGS to be acknowledged that are not the client's
	widened bool   // it has widened the window of the connection, which greet has told the client
}

// An innerConn is the end of a relay that the http.Server has.
type innerConn struct {
	net.Conn // to the relay
	outer    *conn
	reader   *bufio.Reader
}

func (c *innerConn) Read(b []byte) (int, error) { return c.reader.Read(b) }
func (c *innerConn) LocalAddr() net.Addr        { return c.outer.nc.LocalAddr() }
func (c *innerConn) RemoteAddr() net.Addr       { return c.outer.nc.RemoteAddr() }

// NetConn returns the connection of the client.
func (c *innerConn) NetConn() net.Conn { return c.outer.nc }

// isRelayed reports whether the relay has a stream, and has not answered it.
func (c *conn) isRelayed(id uint32) bool {
	_, relayed := c.relayed[id]
	return relayed
}

// openRelay makes the relay, if there is none.
func (c *conn) openRelay() {
	if c.relay != nil {
		return
	}
	c.leaveTable() // net/http does without it, too
	near, far := net.Pipe()
	c.relay, c.relayed = &relay{nc: near, acks: 1}, map[uint32]int64{}
	// HEADER_TABLE_SIZE may only come before any stream: while net/http writes a header block, a new size is a data race there.
	c.toRelay = c.appendSettings(append(c.toRelay, http2.ClientPreface...), http2.Setting{ID: http2.SettingHeaderTableSize}, http2.Setting{ID: http2.SettingEnablePush})
	if c.srv.inner.Connect(c.ctx, &innerConn{far, c, bufio.NewReader(far)}) != nil {
		_ = far.Close()
	}
	go c.serveRelay(c.relay)
}

// appendSettings appends a list of settings, and those of the client that matter to the relay.
func (c *conn) appendSettings(b []byte, list ...http2.Setting) []byte {
	list = append(list, http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.initial)})
	if c.list > 0 {
		list = append(list, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.list})
	}
	b = appendHeader(b, http2.FrameSettings, 0, 0, 6*len(list))
	for _, s := range list {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(s.ID)), s.Val)
	}
	return b
}

// relayHeaders relays a header list. The relay must get streams in order, so that it gets those whose body has
// not come yet before.
func (c *conn) relayHeaders(id uint32, flags http2.Flags, priority []byte, fields []*fieldblock.Field) {
	for len(c.bodies) > 0 && c.bodies[0].id < id {
		c.relayUnread(c.bodies[0], false)
	}
	c.openRelay()
	block := fieldblock.AppendLiterals(append([]byte(nil), priority...), fields)
	most := c.srv.settings.maxFrame
	kind, flags := http2.FrameHeaders, flags&(http2.FlagHeadersEndStream|http2.FlagHeadersPriority)
	for first := true; first || len(block) > 0; first = false {
		n := min(len(block), most)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.toRelay = append(appendHeader(c.toRelay, kind, flags, id, n), block[:n]...)
		block, kind, flags = block[n:], http2.FrameContinuation, 0
	}
	if !c.isRelayed(id) {
		c.relayed[id] = c.initial
	}
}

// relayUnread relays a request before its body has come, with the part that has come.
func (c *conn) relayUnread(u *unread, ended bool) {
	c.removeUnread(u)
	c.relayHeaders(u.id, 0, nil, u.fields)
	c.relayed[u.id] = u.window
	if more := u.window - c.initial; more > 0 { // the client has widened it
		c.toRelay = binary.BigEndian.AppendUint32(appendHeader(c.toRelay, http2.FrameWindowUpdate, 0, u.id, 4), uint32(more))
	}
	flags := http2.Flags(0)
	if ended {
		flags = http2.FlagDataEndStream
	}
	if len(u.body) > 0 || ended {
		c.toRelay = append(appendHeader(c.toRelay, http2.FrameData, flags, u.id, len(u.body)), u.body...)
	}
	c.owed += u.frames - len(u.body)
	unreads.Put(u)
}

// writeRelay writes the frames for the relay. It is called by the goroutine that reads, without the
// mutex, because the relay may be about to take that.
func (c *conn) writeRelay() {
	if len(c.toRelay) == 0 {
		return
	}
	_, _ = c.relay.nc.Write(c.toRelay) // serveRelay sees an error
	if c.toRelay = c.toRelay[:0]; cap(c.toRelay) > leastRead {
		c.toRelay = nil
	}
}

// serveRelay sends what the relay answers to the client.
func (c *conn) serveRelay(r *relay) {
	buf, w := make([]byte, leastRead), 0
	var reply []byte
	for {
		n, err := r.nc.Read(buf[w:])
		if err != nil {
			break
		}
		w += n
		c.mu.Lock()
		rest := buf[:w]
		reply = reply[:0]
		for len(rest) >= headerLen {
			n := headerLen + int(binary.BigEndian.Uint32(rest)>>8)
			if len(rest) < n {
				if n > len(buf) {
					grown := make([]byte, n)
					w = copy(grown, rest)
					buf, rest = grown, grown[:w]
				}
				break
			}
			f := frame{http2.FrameType(rest[3]), http2.Flags(rest[4]), binary.BigEndian.Uint32(rest[5:]) & maxWindow, rest[:n]}
			reply = c.handleRelayed(r, &f, reply)
			rest = rest[n:]
		}
		w = copy(buf, rest)
		c.settle(time.Now())
		reply = c.appendReturned(reply)
		c.mu.Unlock()
		if len(reply) > 0 {
			if _, err := r.nc.Write(reply); err != nil {
				break
			}
		}
	}
	c.endRelay(r)
}

// appendReturned gives the relay back what the client has taken.
func (c *conn) appendReturned(b []byte) []byte {
	if c.returned > 0 {
		b = binary.BigEndian.AppendUint32(appendHeader(b, http2.FrameWindowUpdate, 0, 0, 4), uint32(c.returned))
		c.returned = 0
	}
	return b
}

// handleRelayed handles a frame of the relay, and appends what is to be said to it.
func (c *conn) handleRelayed(r *relay, f *frame, reply []byte) []byte {
	switch f.kind {
	case http2.FrameSettings:
		switch {
		case !f.flags.Has(http2.FlagSettingsAck):
			return appendHeader(reply, http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
		case r.acks > 0:
			r.acks--
			return reply
		}
	case http2.FrameWindowUpdate:
		if f.id == 0 && !r.widened {
			r.widened = true
			return reply
		}
	case http2.FrameGoAway:
		c.relayLeaves(f)
		return reply
	case http2.FrameData:
		c.sendRelayed(f)
		return reply
	case http2.FrameHeaders, http2.FrameContinuation:
		if f.kind == http2.FrameHeaders && !c.isRelayed(f.id) || f.kind == http2.FrameContinuation && r.block == nil {
			return reply // the stream was reset
		}
		c.noteEnd(f)
		if r.block = append(r.block, f.all...); !f.flags.Has(http2.FlagHeadersEndHeaders) {
			return reply // nothing may come between the frames of a block
		}
		all := r.block
		r.block = nil
		if b := c.blockedOf(f.id); b != nil {
			b.after = append(b.after, all...)
			return reply
		}
		c.sendBlock(all)
		return reply
	case http2.FrameRSTStream:
		answered := !c.isRelayed(f.id)
		delete(c.relayed, f.id)
		if b := c.blockedOf(f.id); b != nil && answered {
			b.partial = true
			b.after = append(b.after, f.all...)
			return reply
		}
		c.forget(f.id)
	}
	c.raw(f.all)
	return reply
}

// sendBlock sends the frames of a header block of the relay.
func (c *conn) sendBlock(all []byte) {
	if c.encoded {
		c.raw(all)
		return
	}
	id, flags := binary.BigEndian.Uint32(all[5:]), http2.Flags(all[4])&http2.FlagHeadersEndStream
	from := c.beginBlock(id, flags)
	for len(all) > 0 {
		n := headerLen + int(binary.BigEndian.Uint32(all)>>8)
		c.out = append(c.out, all[headerLen:n]...)
		all = all[n:]
	}
	c.endBlock(id, from)
}

// sendRelayed sends DATA of the relay.
func (c *conn) sendRelayed(f *frame) {
	data, ends := f.payload(), f.flags.Has(http2.FlagDataEndStream)
	if !c.isRelayed(f.id) { // it was reset
		c.returned += len(data)
		return
	}
	c.relayed[f.id] -= int64(len(data))
	switch b := c.blockedOf(f.id); {
	case b != nil:
		b.data, b.ends = append(b.data, data...), ends
	case len(data) == 0:
		c.raw(f.all)
	default:
		c.send(&blocked{id: f.id, window: maxWindow, data: data, ends: ends, relayed: true})
	}
	c.noteEnd(f)
}

// noteEnd notes the end of a relayed stream. The rest of its answer then has a window here.
func (c *conn) noteEnd(f *frame) {
	if f.kind == http2.FrameContinuation || !f.flags.Has(http2.FlagDataEndStream) {
		return
	}
	if b := c.blockedOf(f.id); b != nil {
		b.window = c.relayed[f.id] + int64(len(b.data))
	}
	delete(c.relayed, f.id)
}

// raw sends a frame.
func (c *conn) raw(all []byte) {
	c.begin(0, 0, 0, 0)
	c.out = append(c.out[:len(c.out)-headerLen], all...)
}

// relayLeaves handles a GOAWAY of the relay: a handler wants the client to leave, or the client
// has made a mistake.
func (c *conn) relayLeaves(f *frame) {
	p := f.payload()
	last, code := binary.BigEndian.Uint32(p), http2.ErrCode(binary.BigEndian.Uint32(p[4:]))
	for id := range c.relayed {
		if id > last && code == http2.ErrCodeNo {
			delete(c.relayed, id)
			c.reset(id, http2.ErrCodeRefusedStream)
		}
	}
	c.goAway(code)
}

// endRelay ends a relay that the http.Server has closed.
func (c *conn) endRelay(r *relay) {
	_ = r.nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	for id := range c.relayed {
		delete(c.relayed, id)
		c.reset(id, http2.ErrCodeInternal)
	}
	c.goAway(http2.ErrCodeNo)
	c.settle(time.Now())
}
