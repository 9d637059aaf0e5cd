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
	Addr     string
	Password string // that Do gives, if any

	t       testing.TB
	program string
	args    []string
	env     []string // additional environment
	prefix  []string // command that runs the program
	cmd     *exec.Cmd
	output  bytes.Buffer
}

// Start starts a server of an engine with additional arguments, and stops it when the test
// ends. It keeps nothing on disk unless the arguments say so. It fails the test if the engine
// is not installed.
func Start(t testing.TB, engine string, args ...string) *Server {
	t.Helper()
	s := prepare(t, engine, "127.0.0.1", args)
	s.Run()
	return s
}

// prepare returns a server for Run, which is stopped when the test ends.
func prepare(t testing.TB, engine, host string, args []string) *Server {
	t.Helper()
	port := FreePort(t)
	s := &Server{Addr: net.JoinHostPort(host, port), t: t, program: program(t, engine)}
	own := []string{"--port", port, "--bind", host, "--dir", t.TempDir()}
	if slices.Contains(args, "--sentinel") {
		s.args = append(args, own...) // its file comes first
	} else {
		s.args = append(append(own, "--save", "", "--appendonly", "no"), args...)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s %s:\n%s", engine, s.Addr, &s.output)
		}
	})
	return s
}

// Run starts the server again after Kill.
func (s *Server) Run() {
	s.t.Helper()
	command := append(append(slices.Clone(s.prefix), s.program), s.args...)
	s.cmd = exec.Command(command[0], command[1:]...)
	s.cmd.Env = append(os.Environ(), s.env...)
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
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Do has the server do a command, and returns the reply as redis-cli prints it. It fails the
// test if the reply is an error.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("%s: %v: %v", s.Addr, args, err)
	}
	return reply
}

// Try is Do with an error.
func (s *Server) Try(args ...string) (string, error) {
	host, port, _ := net.SplitHostPort(s.Addr)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cli := exec.CommandContext(ctx, "redis-cli", append([]string{"-e", "-h", host, "-p", port}, args...)...)
	if s.Password != "" {
		cli.Env = append(os.Environ(), "REDISCLI_AUTH="+s.Password)
	}
	output, err := cli.CombinedOutput()
	reply := strings.TrimSpace(string(output))
	if err != nil {
		err = fmt.Errorf("%w: %s", err, reply)
	}
	return reply, err
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
// Until the test ends, no other call returns it, in this process or another one: the port of UDP
// is taken meanwhile.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", 10000+rand.N(20000))
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		ln, err := net.Listen("tcp", address)
		if err == nil {
			_ = ln.Close()
			_, port, _ := net.SplitHostPort(address)
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}
