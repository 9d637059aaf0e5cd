package grpcapi_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
)

// A rawClient sends calls of ShouldRateLimit as frames, of which it chooses the bytes.
type rawClient struct {
	t      *testing.T
	frames *http2.Framer
	header bytes.Buffer
	last   uint32 // stream

	mu    sync.Mutex
	ended map[uint32]ending // streams that the server has ended
}

// An ending is the end of a call.
type ending struct {
	status string // of gRPC; empty without one
	at     time.Time
}

func newRawClient(t *testing.T, nc net.Conn) *rawClient {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	c := &rawClient{t: t, frames: http2.NewFramer(nc, nc), ended: map[uint32]ending{}}
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := nc.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.must(c.frames.WriteSettings())
	go c.read()
	return c
}

func (c *rawClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// read notes the ends of streams until the connection ends.
func (c *rawClient) read() {
	for {
		f, err := c.frames.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		end, known := c.ended[f.Header().StreamID]
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					end.status = field.Value
				}
			}
			if f.StreamEnded() && !known {
				end.at = time.Now()
				c.ended[f.StreamID] = end
			}
		case *http2.RSTStreamFrame:
			if !known {
				c.ended[f.StreamID] = ending{at: time.Now()}
			}
		}
		c.mu.Unlock()
	}
}

// call sends a call with a message that has a length as its prefix says.
func (c *rawClient) call(length int, message []byte) (stream uint32) {
	c.t.Helper()
	c.last += 2
	stream = c.last - 1
	c.header.Reset()
	fields := hpack.NewEncoder(&c.header)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "test"},
		{":path", rls.RateLimitService_ShouldRateLimit_FullMethodName}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		c.must(fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	c.must(c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.header.Bytes(), EndHeaders: true}))
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(length)), message...)
	whole := length == len(message)
	for len(body) > 0 {
		n := min(len(body), 16<<10)
		c.must(c.frames.WriteData(stream, whole && n == len(body), body[:n]))
		body = body[n:]
	}
	return stream
}

// status returns the end of a call, which is zero while it is in progress.
func (c *rawClient) end(stream uint32) ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[stream]
}

// Calls of which a part of the message comes, and then nothing, end in time. They hold the
// memory of the part, and others are served meanwhile, on the same connection too.
func TestHalfMessage(t *testing.T) {
	const limit, calls, large, part = 10 * time.Second, 200, 250 << 10, 100
	message, err := proto.Marshal(&rls.RateLimitRequest{Domain: "edge", Descriptors: list(of("free", "x"))})
	testrig.Must(t, err)
	for _, web := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			bodies := connlimit.NewLimit(connlimit.Bodies, 1<<30)
			r := newRig(t, grpcapi.Config{BodyTimeout: limit, Bodies: bodies}, config.RateLimitOptions{}, rules)
			ln := r.listener
			if web {
				ln = r.webListener
			}
			nc, err := ln.Dial()
			testrig.Must(t, err)
			c, start, before := newRawClient(t, nc), time.Now(), heap()
			streams := []uint32{c.call(large, make([]byte, 30<<10))}
			for range calls {
				streams = append(streams, c.call(large, make([]byte, part)))
			}
			synctest.Wait()
			if grown := heap() - before; grown > calls*large/2 {
				t.Errorf("web %t: %d calls hold %d bytes: want what has come of their messages", web, calls, grown)
			}
			if _, used, _ := bodies.Count(); web && used < calls*large {
				t.Errorf("%d bytes of bodies: want those of %d messages", used, calls)
			}
			r.mustAsk(1, of("free", "x"))
			whole := c.call(len(message), message)
			synctest.Wait()
			if got := c.end(whole); got.status != "0" {
				t.Errorf("web %t: a whole message beside: %+v", web, got)
			}
			time.Sleep(limit - time.Millisecond)
			synctest.Wait()
			if got := c.end(streams[0]); got != (ending{}) {
				t.Errorf("web %t: %+v before the time", web, got)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			for _, s := range streams {
				if got := c.end(s); got.status != "4" || got.at.Sub(start) != limit {
					t.Fatalf("web %t, stream %d: status %q after %v: want %v after %v", web, s, got.status, got.at.Sub(start), uint32(codes.DeadlineExceeded), limit)
				}
			}
			if _, used, _ := bodies.Count(); used != 0 {
				t.Errorf("%d bytes of bodies after the end", used)
			}
			r.mustAsk(1, of("free", "x"))
		})
	}
}

// heap returns the bytes in use, without garbage.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
