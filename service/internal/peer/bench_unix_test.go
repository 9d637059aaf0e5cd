//go:build unix

package peer_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	rlscommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsapi "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// BenchmarkForward forwards decisions to another server over the loopback device, by each of the
// protocols that weir serve has: frames of this package, batches of JSON over HTTP/2 as package
// client sends them, calls of gRPC, and pipelines of RESP. Beside the time, it tells the CPU time of
// both ends together.
func BenchmarkForward(b *testing.B) {
	for _, callers := range []int{1, 16, 100} {
		for _, p := range []struct {
			name string
			dial func(b *testing.B, s *server.Server) (ask func() error)
		}{{"frames", frames}, {"http2", http2Batches}, {"grpc", grpcUnary}, {"resp", respPipeline}} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, p.name), func(b *testing.B) {
				ask := p.dial(b, newServer(b, server.Config{}, one("all", quota(1e6, time.Second, config.GCRA))))
				load(b, callers, ask)
			})
		}
	}
}

// load asks from some goroutines at once.
func load(b *testing.B, callers int, ask func() error) {
	b.ReportAllocs()
	b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	before := cpu()
	b.ResetTimer()
	if callers == 1 {
		for range b.N {
			if err := ask(); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := ask(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu returns the CPU time of the process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func frames(b *testing.B, s *server.Server) func() error {
	c := dial(b, peer.Config{URL: loopback(b, newHandler(b, serve.Config{Decider: s, Now: s.Now})), Now: s.Now})
	var pool = sync.Pool{New: func() any {
		return &struct {
			req decider.Request
			v   decider.Verdict
		}{req: decider.Request{Key: "user:42", N: 1}}
	}}
	return func() error {
		one := pool.Get().(*struct {
			req decider.Request
			v   decider.Verdict
		})
		defer pool.Put(one)
		return c.Decide(context.Background(), &one.req, &one.v)
	}
}

func http2Batches(b *testing.B, s *server.Server) func() error {
	api, err := httpapi.New(s, httpapi.Config{})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(api)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	b.Cleanup(srv.Close)
	c, err := client.New(client.Config{URL: srv.URL, Away: client.Deny, Timeout: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func() error {
		_, err := c.Take(context.Background(), "user:42", 1)
		return err
	}
}

func grpcUnary(b *testing.B, s *server.Server) func() error {
	api, err := grpcapi.New(s, grpcapi.Config{})
	if err != nil {
		b.Fatal(err)
	}
	srv := api.NewServer()
	ln := listen(b)
	go func() { _ = srv.Serve(ln) }()
	b.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	c := rlsapi.NewRateLimitServiceClient(conn)
	req := &rlsapi.RateLimitRequest{Domain: "d", Descriptors: []*rlscommon.RateLimitDescriptor{{
		Entries: []*rlscommon.RateLimitDescriptor_Entry{{Key: "user", Value: "42"}},
	}}}
	return func() error {
		_, err := c.ShouldRateLimit(context.Background(), req)
		return err
	}
}

func listen(b *testing.B) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return ln
}

// A pipeline is a small client of RESP: commands that are ready at the same time share a write.
type pipeline struct {
	conn net.Conn
	wake chan struct{}

	mu      sync.Mutex // guards what follows
	buf     []byte
	waiting []chan error
}

func respPipeline(b *testing.B, s *server.Server) func() error {
	api, err := respapi.New(s, respapi.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ln := listen(b)
	go func() { _ = api.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(); ln.Close() })
	p := &pipeline{conn: conn, wake: make(chan struct{}, 1)}
	go p.write()
	go p.read()
	chans := sync.Pool{New: func() any { return make(chan error, 1) }}
	return func() error {
		done := chans.Get().(chan error)
		defer chans.Put(done)
		p.mu.Lock()
		p.buf = append(p.buf, "*3\r\n$9\r\nWEIR.TAKE\r\n$7\r\nuser:42\r\n$1\r\n1\r\n"...)
		p.waiting = append(p.waiting, done)
		p.mu.Unlock()
		select {
		case p.wake <- struct{}{}:
		default:
		}
		return <-done
	}
}

func (p *pipeline) write() {
	var spare []byte
	for range p.wake {
		runtime.Gosched()
		p.mu.Lock()
		out := p.buf
		p.buf = spare[:0]
		p.mu.Unlock()
		if _, err := p.conn.Write(out); err != nil {
			return
		}
		spare = out
	}
}

func (p *pipeline) read() {
	in := bufio.NewReaderSize(p.conn, 32<<10)
	for {
		err := skip(in)
		if err != nil {
			return
		}
		p.mu.Lock()
		done := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.mu.Unlock()
		done <- nil
	}
}

// skip reads a reply.
func skip(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '-':
		return fmt.Errorf("%s", line)
	case '$':
		_, err = in.Discard(n + 2)
	case '*':
		for range n {
			if err := skip(in); err != nil {
				return err
			}
		}
	}
	return err
}
