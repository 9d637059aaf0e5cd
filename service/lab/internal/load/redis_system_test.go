//go:build system

package load_test

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A real Redis server answers, wants its secret, and reports errors.
func TestRedisServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	addr := ln.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	testrig.Must(t, ln.Close())
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--requirepass", "secret", "--save", "", "--appendonly", "no")
	server.Dir = t.TempDir()
	testrig.Must(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	for range 100 { // until it listens
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, tt := range []struct{ target, body, want string }{
		{"redis://:secret@" + addr, "SET key:{n} {n}", "200"},
		{"redis://default:secret@" + addr, "GET key:{n}", "200"},
		{"redis://:secret@" + addr, "LPUSH key:{n} x", "WRONGTYPE"},
		{"redis://:secret@" + addr, "CL.THROTTLE user:{n} 15 30 60", "ERR"},
		{"redis://:secret@" + addr, "CONFIG GET *", "200"}, // a long reply
		{"redis://:wrong@" + addr, "PING", "WRONGPASS"},
		{"redis://" + addr, "PING", "NOAUTH"},
	} {
		r, _ := run(t, t.Context(), load.Config{Target: tt.target, Body: tt.body, Profile: pace.Constant(1000), Duration: 100 * time.Millisecond})
		if r.ByStatus[tt.want] != 100 {
			t.Errorf("%s: %v: want 100 %s", tt.body, r.ByStatus, tt.want)
		}
	}
}
