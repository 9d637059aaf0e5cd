// Package redistest starts servers of Redis and Valkey for tests, on loopback addresses.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Engines names the programs that Start knows.
var Engines = []string{"redis-server", "valkey-server"}

// A Server is a running server.
type Server struct {
	Addr string

	t       testing.TB
	program string
	args    []string
	cmd     *exec.Cmd
	output  bytes.Buffer
}

// Start starts a server of an engine with additional arguments, and stops it when the test
// ends. It fails the test if the engine is not installed.
func Start(t testing.TB, engine string, args ...string) *Server {
	t.Helper()
	port := FreePort(t)
	s := &Server{Addr: "127.0.0.1:" + port, t: t, program: program(t, engine)}
	s.args = append(args, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir())
	if !slices.Contains(args, "--sentinel") {
		s.args = append(s.args, "--save", "", "--appendonly", "no")
	}
	s.Run()
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s %s:\n%s", engine, s.Addr, &s.output)
		}
	})
	return s
}

// StartSentinel starts a sentinel, alone, for a master.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr, ":")
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 5000\n", name, host, port, name, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, "redis-server", file, "--sentinel")
}

// Run starts the server again after Kill.
func (s *Server) Run() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	Until(s.t, s.Addr+" answers", func() error {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		reply := make([]byte, 64)
		n, err := c.Read(reply)
		if err == nil && !bytes.HasPrefix(reply, []byte("+PONG")) && !bytes.HasPrefix(reply, []byte("-NOAUTH")) {
			err = fmt.Errorf("answers %q", reply[:n])
		}
		return err
	})
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// PID returns the id of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Until calls f until it returns nil, and fails the test after 30 seconds.
func Until(t testing.TB, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within 30 s: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// program returns the path of an engine's program.
func program(t testing.TB, engine string) string {
	t.Helper()
	if path, err := exec.LookPath(engine); err == nil {
		return path
	}
	gopath, err := exec.Command("go", "env", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(gopath)), "clients/*/lib/python3*/site-packages/*/_binaries/*", engine))
	if len(found) == 0 {
		t.Fatalf("%s is not installed: run make need", engine)
	}
	return found[0]
}

// FreePort returns a port that no server uses. It is below the ports that systems give to
// outgoing connections: otherwise a client of a server that is away could get the server's port.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10000+rand.N(20000)))
		if err == nil {
			_, port, _ := net.SplitHostPort(ln.Addr().String())
			_ = ln.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}
