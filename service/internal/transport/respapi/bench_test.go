package respapi_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// BenchmarkThrottle is the time of a decision for client and server together, over
// loopback, one command or 64 at a time.
func BenchmarkThrottle(b *testing.B) {
	for _, c := range []struct{ pipeline, keys int }{{1, 1}, {64, 1}, {64, 100_000}} {
		b.Run(fmt.Sprintf("pipeline=%d/keys=%d", c.pipeline, c.keys), func(b *testing.B) {
			s, err := server.New(server.Config{OwnQuotas: true})
			testrig.Must(b, err)
			api, err := respapi.New(s, respapi.Config{})
			testrig.Must(b, err)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			testrig.Must(b, err)
			go func() { _ = api.Serve(ln) }()
			defer ln.Close()
			nc, err := net.Dial("tcp", ln.Addr().String())
			testrig.Must(b, err)
			defer nc.Close()
			const reply = "*5\r\n:0\r\n:1000000\r\n:999999\r\n:-1\r\n:1\r\n"
			pipelines := make([][]byte, max(c.keys/c.pipeline, 1)*4)
			for i := range pipelines {
				for range c.pipeline {
					pipelines[i] = append(pipelines[i], encode("CL.THROTTLE", fmt.Sprintf("key:%06d", rand.IntN(c.keys)), "999999", "1000000000", "1")...)
				}
			}
			in := make([]byte, c.pipeline*len(reply))
			ask := func(i int) {
				if _, err := nc.Write(pipelines[i%len(pipelines)]); err != nil {
					b.Fatal(err)
				}
				for left := c.pipeline * 5; left > 0; { // a reply has five numbers
					n, err := nc.Read(in)
					testrig.Must(b, err)
					left -= bytes.Count(in[:n], []byte(":"))
				}
			}
			for i := range pipelines {
				ask(i)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%c.pipeline == 0 {
					ask(n / c.pipeline)
				}
			}
		})
	}
}
