package main

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// HTTP/2 requests with answers that the client does not take are bounded over all
// connections, also after they were decided, and keep no other client out.
func TestUnreadStreams(t *testing.T) {
	const most = 100
	s := serving(t, "--max-connections", "100", "--client-timeout", "1m", "--grace", "0s")
	before := runtime.NumGoroutine()
	for range 8 {
		c := dial(t, s.public, http2.ClientPreface)
		f := http2.NewFramer(c, c)
		fatal(t, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		var header bytes.Buffer
		e := hpack.NewEncoder(&header)
		e.SetMaxDynamicTableSize(0)
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/rate/b"}} {
			fatal(t, e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
		}
		for i := range uint32(200) {
			fatal(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: true}))
		}
		fatal(t, f.WritePing(false, [8]byte{1}))
		for acked := false; !acked; { // the server has read all that was sent before
			frame, err := f.ReadFrame()
			fatal(t, err)
			ping, ok := frame.(*http2.PingFrame)
			acked = ok && ping.IsAck()
		}
	}
	// Each of the 1,600 requests would have a goroutine.
	if n := runtime.NumGoroutine() - before; n > 4*most {
		t.Errorf("%d goroutines for %d connections", n, most)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := other.Dial("tcp", s.public[len("http://"):])
	fatal(t, err)
	defer c.Close()
	_, err = io.WriteString(c, wholeRequest)
	fatal(t, err)
	if got := readAnswer(t, c); got != 200 {
		t.Errorf("another client: %d: want 200", got)
	}
	s.stop()
	<-s.ended // requests in flight are cut off
}
