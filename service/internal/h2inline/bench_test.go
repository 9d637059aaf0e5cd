package h2inline_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/h2inline"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// decisions returns a server of decisions, as weir serve has it: net/http's, or that of this package.
func decisions(tb testing.TB, std bool) service {
	rules := config.Rules{Rules: []config.Rule{{Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 1e9, Period: time.Second}}}}}
	s, err := server.New(server.Config{Rules: &rules})
	if err != nil {
		tb.Fatal(err)
	}
	api, err := httpapi.New(s, httpapi.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	envoy, err := grpcapi.New(s, grpcapi.Config{BodyTimeout: time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	srv := newHTTP()
	srv.Handler = envoy.Handler(api)
	if std {
		return srv
	}
	return h2inline.New(srv, func(r *http.Request) bool { return envoy.Immediate(r) || api.Immediate(r) }, api.Single)
}

const (
	tapeBatch = 100
	tapeKeys  = 10_000
)

// A tape is the connection of a client that sends batches of requests, and does not look at the
// answers.
type tape struct {
	net.Conn
	batches [][]byte // each of tapeBatch requests, of different keys
	next    int
	http1   bool
	id      uint32
	left    int // batches
	rest    []byte
	answers int // bytes
	done    chan struct{}
	once    sync.Once // closes done
}

// A tapeKind says what is on a tape.
type tapeKind string

const (
	tapeREST  tapeKind = "REST"
	tapeGRPC  tapeKind = "gRPC"  // Envoy's rate-limit service
	tapeHTTP1 tapeKind = "HTTP1" // the API over HTTP/1.1, in pipelines
)

var tapeKinds = []tapeKind{tapeREST, tapeGRPC, tapeHTTP1}

// newTape returns a tape.
func newTape(kind tapeKind, batches int) *tape {
	if kind == tapeHTTP1 {
		return newTape1(batches)
	}
	grpc := kind == tapeGRPC
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	field := func(name, value string, secret bool) {
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
	}
	t := &tape{left: batches, id: 1, done: make(chan struct{})}
	for from := 0; from < tapeKeys; from += tapeBatch {
		t.batches = append(t.batches, frames(func(f *http2.Framer) {
			_ = f.WriteWindowUpdate(0, 100*tapeBatch) // more than the answers take
			for i := range tapeBatch {
				key := fmt.Sprintf("user-%d", from+i)
				block.Reset()
				field(":method", "POST", false)
				field(":scheme", "http", false)
				field(":authority", "127.0.0.1:8080", false)
				if !grpc {
					field(":path", "/rate/"+key, true)
					field("user-agent", "h2load nghttp2/1.52.0", false)
					_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
					continue
				}
				field(":path", rls.RateLimitService_ShouldRateLimit_FullMethodName, true)
				field("user-agent", "h2load nghttp2/1.52.0", false)
				field("content-type", "application/grpc", false)
				field("te", "trailers", false)
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
				entry := "\x0a\x03key\x12" + string(rune(len(key))) + key
				descriptor := "\x0a" + string(rune(len(entry))) + entry
				message := "\x0a\x04edge\x12" + string(rune(len(descriptor))) + descriptor
				_ = f.WriteData(1, true, []byte("\x00\x00\x00\x00"+string(rune(len(message)))+message))
			}
		}))
	}
	t.rest = append([]byte(http2.ClientPreface), frames(func(f *http2.Framer) { _ = f.WriteSettings() })...)
	return t
}

// newTape1 returns a tape of HTTP/1.1.
func newTape1(batches int) *tape {
	t := &tape{left: batches, http1: true, done: make(chan struct{})}
	for from := 0; from < tapeKeys; from += tapeBatch {
		var batch []byte
		for i := range tapeBatch {
			batch = fmt.Appendf(batch, "POST /rate/user-%d HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: h2load nghttp2/1.52.0\r\n\r\n", from+i)
		}
		t.batches = append(t.batches, batch)
	}
	return t
}

func (t *tape) Read(p []byte) (n int, err error) {
	if len(t.rest) == 0 {
		if t.left == 0 {
			return 0, io.EOF
		}
		t.left--
		t.rest = t.batches[t.next]
		t.next = (t.next + 1) % len(t.batches)
		for b := t.rest; len(b) > 0 && !t.http1; b = b[9+binary.BigEndian.Uint32(b)>>8:] {
			if kind := http2.FrameType(b[3]); kind == http2.FrameHeaders || kind == http2.FrameData {
				binary.BigEndian.PutUint32(b[5:], t.id)
				if http2.Flags(b[4]).Has(http2.FlagHeadersEndStream) {
					t.id += 2
				}
			}
		}
	}
	n = copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *tape) Write(p []byte) (int, error)      { t.answers += len(p); return len(p), nil }
func (t *tape) Close() error                     { t.once.Do(func() { close(t.done) }); return nil }
func (t *tape) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (t *tape) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (t *tape) SetReadDeadline(time.Time) error  { return nil }
func (t *tape) SetWriteDeadline(time.Time) error { return nil }

// play has a server read a tape.
func (t *tape) play(tb testing.TB) {
	ln := pipenet.Listen()
	srv := decisions(tb, false)
	go func() { _ = srv.Serve(ln) }()
	if err := ln.Connect(tb.Context(), t); err != nil {
		tb.Fatal(err)
	}
	<-t.done
	_ = ln.Close()
	_ = srv.Close()
}

func BenchmarkDecision(b *testing.B) {
	for _, kind := range tapeKinds {
		b.Run(string(kind), func(b *testing.B) {
			b.ReportAllocs()
			t := newTape(kind, (b.N+tapeBatch-1)/tapeBatch)
			b.ResetTimer()
			t.play(b)
			b.ReportMetric(float64(t.answers)/float64(b.N), "answer-B/op")
		})
	}
}
