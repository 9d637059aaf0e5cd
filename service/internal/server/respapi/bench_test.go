package respapi_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/respapi"
)

// BenchmarkThrottle is the time of a decision for client and server together, over
// loopback, one command or 64 at a time.
func BenchmarkThrottle(b *testing.B) {
	for _, pipeline := range []int{1, 64} {
		b.Run(fmt.Sprint("pipeline=", pipeline), func(b *testing.B) {
			s, err := server.New(server.Config{OwnQuotas: true})
			if err != nil {
				b.Fatal(err)
			}
			api, err := respapi.New(s, respapi.Config{})
			if err != nil {
				b.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go func() { _ = api.Serve(ln) }()
			defer ln.Close()
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			const reply = "*5\r\n:0\r\n:1000000\r\n:999999\r\n:-1\r\n:1\r\n"
			commands := strings.Repeat(encode("CL.THROTTLE", "key", "999999", "1000000000", "1"), pipeline)
			in := make([]byte, pipeline*len(reply))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%pipeline != 0 {
					continue
				}
				if _, err := io.WriteString(nc, commands); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadAtLeast(nc, in, 5*pipeline); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
