// Package process runs the servers that the benchmarks measure.
package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is a server in a separate process.
type Process struct {
	Addr string
	cmd  *exec.Cmd
}

// Start starts a server at addr. If addr is empty, the server prints its address as its
// first line.
func Start(cmd *exec.Cmd, addr string) (*Process, error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{addr, cmd}
	if addr == "" {
		if _, err := fmt.Fscanln(out, &p.Addr); err != nil {
			p.Stop()
			return nil, fmt.Errorf("%v prints no address: %w", cmd.Args, err)
		}
	}
	for range 100 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", p.Addr); err == nil {
			return p, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.Stop()
	return nil, fmt.Errorf("%v does not answer: %w", cmd.Args, err)
}

// StartSelf starts this program with other arguments. It calls Listen.
func StartSelf(args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Start(exec.Command(self, args...), "")
}

// Listen listens on the loopback interface, and prints the address.
func Listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(l.Addr())
	}
	return l, err
}

// Stop kills the process.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Cost returns the CPU time that the process uses for each of the requests that send
// sends, in µs.
func (p *Process) Cost(send func() (requests int, err error)) (float64, error) {
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

// Resident returns the bytes of memory that are resident.
func (p *Process) Resident() (bytes int, err error) {
	pages := 0
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(statm), new(int), &pages)
	}
	return pages * os.Getpagesize(), err
}
