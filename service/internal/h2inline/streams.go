package h2inline

import (
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A block is a header block that has not come to its end.
type block struct {
	id       uint32 // 0 if there is none
	flags    http2.Flags
	priority []byte
	bytes    []byte
}

// maxBody bounds the body of a request that is answered here, in bytes. It fits in a frame.
const maxBody = 8 << 10

// maxRemembered bounds the header blocks with fields that are kept for the next request, in bytes.
const maxRemembered = 1 << 10

// An unread is a request that can be answered here once its body has come.
type unread struct {
	id     uint32
	fields []*fieldblock.Field
	path   fieldblock.Field // of fields
	text   []byte           // its value
	body   []byte
	length int // the Content-Length, or -1
	frames int // bytes of DATA, with padding
	window int64
}

var unreads = sync.Pool{New: func() any { return new(unread) }}

// handleHeaders handles HEADERS.
func (c *conn) handleHeaders(f *frame, now time.Time) error {
	if f.id == 0 {
		return errProtocol
	}
	b, err := f.unpad()
	if err != nil {
		return err
	}
	c.block = block{id: f.id, flags: f.flags, bytes: c.block.bytes[:0]}
	if f.flags.Has(http2.FlagHeadersPriority) {
		if len(b) < 5 {
			return errFrameSize
		}
		c.block.priority, b = slices.Clone(b[:5]), b[5:]
	}
	return c.handleBlock(f.flags, b, now)
}

// handleBlock handles a part of a header block.
func (c *conn) handleBlock(flags http2.Flags, b []byte, now time.Time) error {
	k := &c.block
	if len(k.bytes)+len(b) > 2*c.srv.settings.maxList {
		return errProtocol // as in net/http
	}
	if !flags.Has(http2.FlagHeadersEndHeaders) {
		k.bytes = append(k.bytes, b...)
		return nil
	}
	if len(k.bytes) > 0 {
		k.bytes = append(k.bytes, b...)
		b = k.bytes
	}
	c.unreadID = 0 // the next path takes the place of its path
	fields, tooLong, err := c.decoder.Decode(b)
	if err != nil {
		return err
	}
	if err = c.handleFields(fields, tooLong, now); len(b) > maxRemembered {
		c.decoder.Forget()
		c.initRequest()
	}
	k.id, k.priority = 0, nil
	if cap(k.bytes) > leastRead {
		k.bytes = nil
	}
	return err
}

// handleFields handles the fields of a whole block.
func (c *conn) handleFields(fields []*fieldblock.Field, tooLong bool, now time.Time) error {
	k := &c.block
	switch {
	case k.id%2 == 0:
		return errProtocol
	case k.id <= c.lastID:
		return c.handleTrailer(fields)
	case c.leaving:
		return nil
	}
	c.lastID, c.active = k.id, now
	if c.open() >= c.srv.settings.maxStreams {
		if c.reset(k.id, http2.ErrCodeRefusedStream); c.unacked == 0 {
			binary.BigEndian.PutUint32(c.out[len(c.out)-4:], uint32(http2.ErrCodeProtocol))
		}
		return nil
	}
	ended := k.flags.Has(http2.FlagHeadersEndStream)
	switch {
	case k.priority != nil && binary.BigEndian.Uint32(k.priority)&maxWindow == k.id, !c.request.Set(fields, ended):
		c.relayHeaders(k.id, k.flags, k.priority, fields)
	case tooLong:
		c.respond(k.id, c.initial, http.HandlerFunc(refuseHeader))
	default:
		c.handleRequest(fields, ended)
	}
	return nil
}

// handleRequest answers the request that was set, or begins to.
func (c *conn) handleRequest(fields []*fieldblock.Field, ended bool) {
	k := &c.block
	switch fast := c.srv.fast(c.request.HTTP); {
	case fast && ended:
		c.respond(k.id, c.initial, c.srv.http.Handler)
	case fast:
		c.addUnread(k.id, fields)
	case ended && c.srv.single(c.request.HTTP):
		c.park(k.id)
	default:
		c.relayHeaders(k.id, k.flags, k.priority, fields)
	}
}

// refuseHeader answers a request with too many header fields, as net/http does.
func refuseHeader(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = []string{"text/html; charset=utf-8"}
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
}

// handleTrailer handles the fields of a stream that has begun.
func (c *conn) handleTrailer(fields []*fieldblock.Field) error {
	id, b := c.block.id, c.blockedOf(c.block.id)
	if u := c.unreadOf(id); u != nil {
		c.relayUnread(u, false)
	}
	switch {
	case c.isRelayed(id):
		c.relayHeaders(id, c.block.flags, c.block.priority, fields)
	case slices.ContainsFunc(fields, func(f *fieldblock.Field) bool { return f.Kind == fieldblock.Strange }):
		c.reset(id, http2.ErrCodeProtocol)
	case b != nil && b.partial:
		b.partial = false
		if !c.block.flags.Has(http2.FlagHeadersEndStream) || slices.ContainsFunc(fields, func(f *fieldblock.Field) bool { return f.Kind < fieldblock.ContentLength }) {
			c.reset(id, http2.ErrCodeProtocol)
		}
	case b != nil, c.parked[id] != nil:
		c.reset(id, http2.ErrCodeStreamClosed)
	default:
		return errProtocol
	}
	return nil
}

// addUnread keeps a request until its body has come.
func (c *conn) addUnread(id uint32, fields []*fieldblock.Field) {
	u := unreads.Get().(*unread)
	u.id, u.length, u.window, u.frames, u.body = id, c.request.Length, c.initial, 0, u.body[:0]
	u.fields = append(u.fields[:0], fields...)
	for i, f := range u.fields {
		if c.decoder.Volatile(f) {
			u.text = append(u.text[:0], f.Value...)
			u.path = *f
			u.path.Value, u.fields[i] = unsafe.String(unsafe.SliceData(u.text), len(u.text)), &u.path
		}
	}
	c.unreadID = id
	c.bodies = append(c.bodies, u)
}

// unreadOf returns the request of a stream while its body has not come, or nil.
func (c *conn) unreadOf(id uint32) *unread {
	for _, u := range c.bodies {
		if u.id == id {
			return u
		}
	}
	return nil
}

// removeUnread ends the wait for a body.
func (c *conn) removeUnread(u *unread) {
	i := slices.Index(c.bodies, u)
	c.bodies = slices.Delete(c.bodies, i, i+1)
}

// addBody adds DATA to the body of a request, and answers it if that was the last.
func (c *conn) addBody(u *unread, f *frame, data []byte) {
	u.body = append(u.body, data...)
	u.frames += len(f.payload())
	ended := f.flags.Has(http2.FlagDataEndStream)
	switch {
	case len(u.body) > maxBody, u.length >= 0 && (len(u.body) > u.length || ended && len(u.body) < u.length):
		c.relayUnread(u, ended)
	case ended:
		c.owed += u.frames
		c.removeUnread(u)
		if c.unreadID != u.id {
			c.request.Set(u.fields, false)
		}
		c.unreadID = 0
		c.request.SetBody(u.body)
		c.respond(u.id, u.window, c.srv.http.Handler)
		unreads.Put(u)
	}
}
