package http2serve

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
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
		return c.handleWindowUpdate(f)
	case http2.FrameRSTStream:
		return c.handleReset(f)
	case http2.FrameSettings:
		return c.handleSettings(f)
	case http2.FramePing:
		return c.handlePing(f)
	case http2.FramePriority:
		return c.handlePriority(f)
	case http2.FrameGoAway:
		if f.id != 0 {
			return errProtocol
		} else if len(f.payload()) < 8 {
			return errFrameSize
		}
		c.goAway(http2.ErrCodeNo)
	case http2.FramePushPromise:
		return errProtocol
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
	case c.leaving && f.id > c.lastID:
		c.owed += len(f.payload())
		return nil
	case f.id > c.lastID:
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
	c.reset(f.id, http2.ErrCodeStreamClosed)
	return nil
}

func (c *conn) handleWindowUpdate(f *frame) error {
	p := f.payload()
	if len(p) != 4 {
		return errFrameSize
	}
	n := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if f.id == 0 {
		if n == 0 {
			return errProtocol
		}
		if c.window += n; c.window > maxWindow {
			return errFlow
		}
		c.unblock()
		return nil
	}
	switch {
	case n > 0 && c.leaving && f.id > c.lastID:
	case n > 0 && f.id > c.lastID:
		return errProtocol
	case c.isRelayed(f.id):
		c.toRelay = append(c.toRelay, f.all...)
	case n == 0:
		c.reset(f.id, http2.ErrCodeProtocol)
	default:
		c.widen(f.id, n)
	}
	return nil
}

func (c *conn) handleReset(f *frame) error {
	switch {
	case len(f.payload()) != 4:
		return errFrameSize
	case f.id == 0, f.id > c.lastID && !c.leaving:
		return errProtocol
	case c.isRelayed(f.id):
		c.toRelay = append(c.toRelay, f.all...)
		c.relayDone(f.id)
	}
	c.forget(f.id)
	return nil
}

func (c *conn) handleSettings(f *frame) error {
	p := f.payload()
	switch {
	case f.id != 0:
		return errProtocol
	case f.flags.Has(http2.FlagSettingsAck) && len(p) > 0, len(p)%6 != 0:
		return errFrameSize
	case !c.greeted && f.flags.Has(http2.FlagSettingsAck) && c.unacked == 0, len(p)/6 > maxSettings:
		return errProtocol
	}
	c.greeted = true
	if f.flags.Has(http2.FlagSettingsAck) {
		if c.unacked--; c.unacked < 0 {
			return errProtocol
		}
		return nil
	}
	for i := 0; i < len(p); i += 6 {
		for j := 0; j < i; j += 6 {
			if p[i] == p[j] && p[i+1] == p[j+1] {
				return errProtocol
			}
		}
		s := http2.Setting{ID: http2.SettingID(binary.BigEndian.Uint16(p[i:])), Val: binary.BigEndian.Uint32(p[i+2:])}
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			if !c.resizeWindows(int64(s.Val)) {
				return errFlow
			}
		case http2.SettingMaxHeaderListSize:
			c.list = s.Val
		}
	}
	if c.relay != nil {
		c.toRelay = c.appendSettings(c.toRelay) // its acknowledgement is passed on
	} else {
		c.begin(http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
	}
	c.unblock()
	return nil
}

func (c *conn) handlePing(f *frame) error {
	switch {
	case f.id != 0:
		return errProtocol
	case len(f.payload()) != 8:
		return errFrameSize
	case f.flags.Has(http2.FlagPingAck):
		return nil
	}
	c.begin(http2.FramePing, http2.FlagPingAck, 0, 8)
	c.out = append(c.out, f.payload()...)
	return nil
}

func (c *conn) handlePriority(f *frame) error {
	switch p := f.payload(); {
	case f.id == 0:
		return errProtocol
	case len(p) != 5:
		return errFrameSize
	case binary.BigEndian.Uint32(p)&maxWindow != f.id:
	case c.isRelayed(f.id):
		c.toRelay = append(c.toRelay, f.all...)
	default:
		c.reset(f.id, http2.ErrCodeProtocol)
	}
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
	if c.pooled == nil {
		c.pooled = outBuffers.Get().(*[]byte)
		c.out = *c.pooled
	}
	c.out = appendHeader(c.out, kind, flags, id, n)
}

// greet announces the settings that net/http has.
func (c *conn) greet() {
	s := &c.srv.settings
	list := [...]http2.Setting{
		{ID: http2.SettingMaxFrameSize, Val: uint32(s.maxFrame)}, {ID: http2.SettingMaxConcurrentStreams, Val: uint32(s.maxStreams)},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(s.maxList)}, {ID: http2.SettingHeaderTableSize, Val: tableSize},
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

// goAway announces the end of the connection.
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
