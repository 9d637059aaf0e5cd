package h2inline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

// A frame is a frame of the client.
type frame struct {
	kind  http2.FrameType
	flags http2.Flags
	id    uint32 // of the stream
	all   []byte // with the header
}

// Errors of a connection.
const (
	errProtocol  = http2.ConnectionError(http2.ErrCodeProtocol)
	errFrameSize = http2.ConnectionError(http2.ErrCodeFrameSize)
	errFlow      = http2.ConnectionError(http2.ErrCodeFlowControl)
)

// maxSettings bounds the settings in a frame, as in net/http.
const maxSettings = 100

func (f *frame) payload() []byte { return f.all[headerLen:] }

// handle handles a frame. An error is a http2.ConnectionError, or one of writing.
func (c *conn) handle(f *frame, now time.Time) error {
	switch {
	case (c.block.id != 0) != (f.kind == http2.FrameContinuation), c.block.id != 0 && c.block.id != f.id,
		!c.greeted && f.kind != http2.FrameSettings:
		return errProtocol
	}
	switch f.kind {
	case http2.FrameHeaders:
		return c.handleHeaders(f, now)
	case http2.FrameContinuation:
		return c.handleBlock(f.flags, f.payload(), now)
	case http2.FrameData:
		return c.handleData(f)
	case http2.FrameWindowUpdate:
		if p := f.payload(); len(p) == 4 && binary.BigEndian.Uint32(p)&maxWindow > 0 {
			return c.handleWindowUpdate(f, int64(binary.BigEndian.Uint32(p)&maxWindow))
		}
	}
	return c.handleControl(f)
}

// handleControl handles a frame that is seldom, as package http2 reads it.
func (c *conn) handleControl(f *frame) error {
	read, err := http2.NewFramer(nil, bytes.NewReader(f.all)).ReadFrame()
	if of, ok := errors.AsType[http2.StreamError](err); ok {
		return c.mistake(f, of.Code)
	}
	if err != nil {
		return err
	}
	switch read := read.(type) {
	case *http2.RSTStreamFrame:
		return c.handleReset(f)
	case *http2.SettingsFrame:
		return c.handleSettings(read)
	case *http2.PingFrame:
		switch {
		case read.IsAck() && string(read.Data[:]) == partPing:
			c.goAway(http2.ErrCodeNo)
		case !read.IsAck():
			c.begin(http2.FramePing, http2.FlagPingAck, 0, len(read.Data))
			c.out = append(c.out, read.Data[:]...)
		}
	case *http2.PriorityFrame:
		if read.StreamDep == f.id {
			return c.mistake(f, http2.ErrCodeProtocol)
		}
	case *http2.GoAwayFrame:
		c.goAway(http2.ErrCodeNo)
	case *http2.PushPromiseFrame:
		return errProtocol
	}
	return nil
}

// ignores reports whether a stream has begun after GOAWAY. The client knows that it is not handled.
func (c *conn) ignores(id uint32) bool { return c.leaving && id > c.lastID }

// isIdle reports whether a stream has not begun.
func (c *conn) isIdle(id uint32) bool { return id > c.lastID || id%2 == 0 }

// mistake ends a stream because of a frame, or leaves that to the relay.
func (c *conn) mistake(f *frame, code http2.ErrCode) error {
	switch {
	case c.ignores(f.id):
	case c.isRelayed(f.id):
		c.toRelay = append(c.toRelay, f.all...)
	default:
		c.reset(f.id, code)
	}
	return nil
}

// unpad returns the payload without its padding.
func (f *frame) unpad() ([]byte, error) {
	p := f.payload()
	if !f.flags.Has(http2.FlagDataPadded) {
		return p, nil
	}
	if len(p) == 0 {
		return nil, errFrameSize
	}
	if int(p[0]) >= len(p) {
		return nil, errProtocol
	}
	return p[1 : len(p)-int(p[0])], nil
}

func (c *conn) handleData(f *frame) error {
	if f.id == 0 {
		return errProtocol
	}
	data, err := f.unpad()
	switch {
	case err != nil:
		return err
	case c.ignores(f.id):
		c.owed += len(f.payload())
		return nil
	case c.isIdle(f.id):
		return errProtocol
	}
	if u := c.unreadOf(f.id); u != nil {
		c.addBody(u, f, data)
		return nil
	}
	if c.isRelayed(f.id) {
		c.toRelay = append(c.toRelay, f.all...)
		return nil
	}
	c.owed += len(f.payload())
	if b := c.blockedOf(f.id); b != nil && b.partial {
		b.partial = !f.flags.Has(http2.FlagDataEndStream)
	} else {
		c.reset(f.id, http2.ErrCodeStreamClosed)
	}
	return nil
}

func (c *conn) handleWindowUpdate(f *frame, n int64) error {
	switch {
	case f.id == 0:
		if c.window += n; c.window > maxWindow {
			return errFlow
		}
		c.unblock()
	case c.ignores(f.id):
	case c.isIdle(f.id):
		return errProtocol
	case c.isRelayed(f.id):
		c.relayed[f.id] += n
		c.toRelay = append(c.toRelay, f.all...)
		if b := c.blockedOf(f.id); b != nil && c.relayed[f.id]+int64(len(b.data)) > maxWindow {
			c.cut(f.id, http2.ErrCodeFlowControl)
		}
	default:
		c.widen(f.id, n)
	}
	return nil
}

func (c *conn) handleReset(f *frame) error {
	switch {
	case c.ignores(f.id):
	case c.isIdle(f.id):
		return errProtocol
	case c.isRelayed(f.id):
		c.toRelay = append(c.toRelay, f.all...)
		delete(c.relayed, f.id)
	}
	c.forget(f.id)
	return nil
}

func (c *conn) handleSettings(f *http2.SettingsFrame) error {
	c.greeted = true
	if f.IsAck() {
		if c.unacked--; c.unacked < 0 {
			return errProtocol
		}
		return nil
	}
	if f.NumSettings() > maxSettings || f.HasDuplicates() {
		return errProtocol
	}
	if err := f.ForeachSetting(http2.Setting.Valid); err != nil {
		return err
	}
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok && !c.resizeWindows(int64(v)) {
		return errFlow
	}
	if v, ok := f.Value(http2.SettingMaxHeaderListSize); ok {
		c.list = v
	}
	if v, ok := f.Value(http2.SettingHeaderTableSize); ok && v < fieldblock.IndexedSize {
		c.leaveTable()
	}
	if c.relay != nil {
		c.toRelay = c.appendSettings(c.toRelay) // its acknowledgement is passed on
	} else {
		c.begin(http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
	}
	c.unblock()
	return nil
}

// appendHeader appends the header of a frame.
func appendHeader(b []byte, kind http2.FrameType, flags http2.Flags, id uint32, n int) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// number appends a frame with a number for the client.
func (c *conn) number(kind http2.FrameType, id, n uint32) {
	c.begin(kind, 0, id, 4)
	c.out = binary.BigEndian.AppendUint32(c.out, n)
}

// begin appends the header of a frame for the client.
func (c *conn) begin(kind http2.FrameType, flags http2.Flags, id uint32, n int) {
	c.openOut()
	c.out = appendHeader(c.out, kind, flags, id, n)
}

// openOut gets the memory of out.
func (c *conn) openOut() {
	if c.pooled == nil {
		c.pooled = outBuffers.Get().(*[]byte)
		c.out = *c.pooled
	}
}

// greet announces the settings that net/http has.
func (c *conn) greet() {
	s := &c.srv.settings
	list := [...]http2.Setting{
		{ID: http2.SettingMaxFrameSize, Val: uint32(s.maxFrame)}, {ID: http2.SettingMaxConcurrentStreams, Val: uint32(s.maxStreams)},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(s.maxList)}, {ID: http2.SettingHeaderTableSize, Val: fieldblock.TableSize},
		{ID: http2.SettingInitialWindowSize, Val: uint32(s.streamBuffer)},
	}
	c.begin(http2.FrameSettings, 0, 0, 6*len(list))
	for _, one := range list {
		c.out = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(c.out, uint16(one.ID)), one.Val)
	}
	c.unacked++
	c.number(http2.FrameWindowUpdate, 0, uint32(s.connBuffer-initialWindow))
}

// reset ends a stream with an error.
func (c *conn) reset(id uint32, code http2.ErrCode) {
	c.forget(id)
	c.number(http2.FrameRSTStream, id, uint32(code))
}

// part asks the client to leave. The streams that it begins before it has read that are still handled, as
// RFC 9113, section 6.8, has it: a client may have to wait before it sends them over another connection. The
// connection ends once the client has answered a PING, which comes after them, or after the farewell.
func (c *conn) part(now time.Time) {
	if c.leaving || !c.parted.IsZero() {
		return
	}
	c.parted = now
	c.begin(http2.FrameGoAway, 0, 0, 8)
	c.out = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(c.out, maxWindow), uint32(http2.ErrCodeNo))
	c.begin(http2.FramePing, 0, 0, len(partPing))
	c.out = append(c.out, partPing...)
}

const partPing = "weir bye"

// goAway announces the end of the connection, and which stream is the last.
func (c *conn) goAway(code http2.ErrCode) {
	if c.failed || c.leaving && code == http2.ErrCodeNo {
		return
	}
	c.leaving, c.failed = true, code != http2.ErrCodeNo
	if c.failed {
		c.bodies = nil
	}
	c.begin(http2.FrameGoAway, 0, 0, 8)
	c.out = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(c.out, c.lastID), uint32(code))
}
