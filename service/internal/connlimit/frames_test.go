package connlimit

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/internal/testrig"
)

// sent returns what a client sends that has run f.
func sent(f func(*http2.Framer)) []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	f(http2.NewFramer(&b, nil))
	return b.Bytes()
}

// What frames cost does not depend on how they are cut into reads.
func TestCosts(t *testing.T) {
	for what, tt := range map[string]struct {
		bytes []byte
		cost  int
	}{
		"settings": {sent(func(f *http2.Framer) { _ = f.WriteSettings() }), costControl},
		"pings":    {sent(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{}); _ = f.WritePing(true, [8]byte{}) }), 2 * costControl},
		"a request": {sent(func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 1000)})
		}), 0},
		"a body":      {sent(func(f *http2.Framer) { _ = f.WriteData(1, true, make([]byte, 10_000)) }), 0},
		"small bytes": {sent(func(f *http2.Framer) { _ = f.WriteData(1, true, nil); _ = f.WriteData(1, true, []byte("a")) }), 2 * costSmall},
		"resets":      {sent(func(f *http2.Framer) { _ = f.WriteRSTStream(1, 0); _ = f.WriteRSTStream(3, 0) }), 2 * costReset},
		"unknown":     {sent(func(f *http2.Framer) { _ = f.WriteRawFrame(0xfe, 0, 0, make([]byte, 300)) }), costControl},
		"HTTP/1":      {[]byte("PRI * HTTP/1.1\r\nHost: a\r\n\r\n"), 0},
		"a byte":      {[]byte("G"), 0},
	} {
		for range 100 {
			f, cost := frames{}, 0
			for rest := tt.bytes; len(rest) > 0 && !f.off; {
				n := 1 + rand.IntN(len(rest))
				cost += f.read(rest[:n])
				rest = rest[n:]
			}
			if cost != tt.cost || f.off == f.begun() && len(tt.bytes) > 1 {
				t.Fatalf("%s: cost %d, HTTP/2 %v: want %d", what, cost, f.begun(), tt.cost)
			}
		}
	}
}

// However many connections a client has, its frames are read at the rate of its units. A
// connection with few frames, also from the same address, is not delayed.
func TestAFloodOfFrames(t *testing.T) {
	for name, conns := range map[string]int{"one connection": 1, "many": 50} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := testrig.Listen()
				limit := New(ln, 1000)
				defer limit.Close()
				ping := sent(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{}) })[len(http2.ClientPreface):]
				flood := bytes.Repeat(ping, 100)
				var read atomic.Int64
				start := time.Now()
				for range conns {
					client, server := dial(t, ln, limit)
					defer client.Close()
					defer server.Close()
					go func() {
						if _, err := io.WriteString(client, http2.ClientPreface); err != nil {
							return
						}
						for {
							if _, err := client.Write(flood); err != nil {
								return
							}
						}
					}()
					go func() {
						b := make([]byte, 4096)
						for {
							n, err := server.Read(b)
							if err != nil {
								return
							}
							read.Add(int64(n))
						}
					}()
				}
				calm, server := dial(t, ln, limit)
				defer calm.Close()
				defer server.Close()
				go func() {
					_, _ = io.WriteString(calm, http2.ClientPreface)
					for {
						time.Sleep(time.Second)
						if _, err := calm.Write(ping); err != nil {
							return
						}
					}
				}()
				delays := make(chan time.Duration, 100)
				go func() {
					b := make([]byte, 100)
					for {
						if _, err := server.Read(b); err != nil {
							return
						}
						delays <- time.Since(start) % time.Second
					}
				}()
				const lasts = 20 * time.Second
				time.Sleep(lasts)
				pings := int(read.Load()) / len(ping)
				most := 2*int(lasts.Seconds())*unitsEach/costControl + (unitsBurst+conns*connBurst)/costControl + 500*conns
				if pings > most || pings < most/4 {
					t.Errorf("%d pings in %v: want at most %d, and not far less", pings, lasts, most)
				}
				if limit.Count().Delayed == 0 {
					t.Error("no read was delayed")
				}
				for len(delays) > 0 {
					if d := <-delays; d > 0 {
						t.Errorf("the connection with a ping a second was delayed by %v", d)
					}
				}
				calm.Close()
				time.Sleep(time.Second) // until its goroutine has seen that
			})
		})
	}
}

// A connection that pauses ends when it is closed.
func TestCloseEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := testrig.Listen()
		limit := New(ln, 10)
		defer limit.Close()
		client, server := dial(t, ln, limit)
		defer client.Close()
		start := time.Now()
		go func() {
			flood := sent(func(f *http2.Framer) {
				for range 20_000 {
					_ = f.WriteRSTStream(1, 0)
				}
			})
			_, _ = client.Write(flood)
		}()
		ended := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, struct{ io.Reader }{server})
			ended <- err
		}()
		time.Sleep(time.Second)
		if n := server.client.pays.conns.Load(); n != 1 {
			t.Errorf("%d connections of HTTP/2: want 1", n)
		}
		server.Close()
		<-ended
		if d := time.Since(start); d != time.Second {
			t.Errorf("it ended after %v: want 1s", d)
		}
		if n := server.client.pays.conns.Load(); n != 0 {
			t.Errorf("%d connections of HTTP/2 are counted: want none", n)
		}
	})
}

// A client that sends nothing, or a part of the first line, is gone after the time for its
// first bytes, also during a handshake.
func TestHelloTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := testrig.Listen()
		limit := New(ln, 10)
		limit.HelloTime = 10 * time.Second
		defer limit.Close()
		client, server := dial(t, ln, limit)
		defer client.Close()
		defer server.Close()
		start := time.Now()
		_, err := server.Read(make([]byte, 100))
		if nerr, ok := err.(net.Error); !ok || !nerr.Timeout() || time.Since(start) != limit.HelloTime {
			t.Errorf("%v after %v: want a time-out after %v", err, time.Since(start), limit.HelloTime)
		}
	})
}
