package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// A process is a server in a separate process.
type process struct {
	addr  string
	admin string // address of operators, if any
	cmd   *exec.Cmd
}

// start starts a server. Its last argument is a free address for it to listen on.
func start(path string, args ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &process{addr: addr, cmd: exec.Command(path, append(args, addr)...)}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", p.addr); err == nil {
			return p, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%v does not answer: %w", p.cmd.Args, err)
}

// freeAddr returns an address that no process listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// stop kills the process.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cost returns the CPU time that the process uses for each of the requests that send
// sends, in µs.
func (p *process) cost(send func() (requests int, err error)) (float64, error) {
	var before, after unix.Timespec
	// The clock of another process, as clock_getcpuclockid(3) computes it on Linux.
	clock := int32(^p.cmd.Process.Pid<<3 | 2)
	if err := unix.ClockGettime(clock, &before); err != nil {
		return 0, err
	}
	n, err := send()
	if err != nil {
		return 0, err
	}
	err = unix.ClockGettime(clock, &after)
	return float64(after.Nano()-before.Nano()) / 1e3 / float64(n), err
}

// resident returns the bytes of memory that are resident.
func (p *process) resident() (bytes int, err error) {
	pages := 0
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(statm), new(int), &pages)
	}
	return pages * os.Getpagesize(), err
}

func (p *process) host() string {
	host, _, _ := net.SplitHostPort(p.addr)
	return host
}

func (p *process) port() string {
	_, port, _ := net.SplitHostPort(p.addr)
	return port
}
