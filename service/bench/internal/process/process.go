// Package process runs servers in separate processes, and measures what they use. It needs Linux.
package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// A Process is a server in a separate process.
type Process struct {
	Addr string
	cmd  *exec.Cmd
	out  output
}

// FreeAddr returns an address of loopback with a free port.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// Start starts a server, and returns when it listens. A free address is added to the arguments, for the server to
// listen on.
func Start(path string, args ...string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	return StartAt(addr, path, append(args[:len(args):len(args)], addr)...)
}

// StartAt starts a server that listens on an address, and returns when it does. The error has what it has written.
func StartAt(addr, path string, args ...string) (*Process, error) {
	p := &Process{Addr: addr, cmd: exec.Command(path, args...)}
	p.cmd.Stderr = &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var err error
	for range 500 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr); err == nil {
			return p, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.Stop()
	return nil, fmt.Errorf("%v does not answer: %w: %s", p.cmd.Args, err, p.out)
}

// Stop ends the process, and kills it after two seconds: nginx ends its workers only if it is not killed.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(2*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	kill.Stop()
}

// maxOutput is the number of bytes that are kept of the errors that a process writes.
const maxOutput = 16 << 10

// output has the first bytes that a process writes.
type output []byte

func (o *output) Write(b []byte) (int, error) {
	*o = append(*o, b[:min(len(b), maxOutput-len(*o))]...)
	return len(b), nil
}
