package demo

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
)

// memory is a network of pipes, in which what is sent arrives after a moment.
func memory() network {
	var mu sync.Mutex
	servers := make(map[string]server)
	return network{
		listen: func() (net.Listener, error) {
			mu.Lock()
			defer mu.Unlock()
			s := server{pipenet.Listen(), len(servers) + 1}
			servers[s.Addr().String()] = s
			return s, nil
		},
		dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			mu.Lock()
			s := servers[address]
			mu.Unlock()
			near, far := net.Pipe()
			return late{near}, s.Connect(ctx, late{far})
		},
	}
}

// A server has a port, so that there may be several.
type server struct {
	*pipenet.Listener
	port int
}

func (s server) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.port} }

type late struct{ net.Conn }

func (l late) Write(p []byte) (int, error) {
	time.Sleep(500 * time.Microsecond)
	return l.Conn.Write(p)
}

// The experiments run beside each other, as TestExperiments judges over a longer time.
func TestExperimentsBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, err := runAll(t.Context(), memory(), 1, 20*time.Second)
		if err != nil || len(report.Experiments) != 5 {
			t.Errorf("%d experiments, %v: want 5", len(report.Experiments), err)
		}
		time.Sleep(time.Minute) // the origin ends abandoned work
	})
}
