package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A process is a server in a separate process.
type process struct {
	addr string
	cmd  *exec.Cmd
}

// start starts a server. Its last argument is a free address for it to listen on.
func start(path string, args ...string) (*process, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, err
	}
	p := &process{addr, exec.Command(path, append(args[:len(args):len(args)], addr)...)}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr); err == nil {
			return p, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%v does not answer: %w", p.cmd.Args, err)
}

// An attacker is an attack in a separate process.
type attacker struct {
	cmd  *exec.Cmd
	in   io.Closer // the attack ends when it is closed
	out  bytes.Buffer
	done chan struct{} // closed when the process has ended
	err  error         // how
}

func startAttacker(self string, nice int, name, addr string) (*attacker, error) {
	a := &attacker{done: make(chan struct{})}
	a.cmd = exec.Command("nice", "-n", strconv.Itoa(nice), self, "-attacker", name, addr)
	a.cmd.Stdout, a.cmd.Stderr = &a.out, os.Stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.done)
	}()
	return a, nil
}

// end ends the attack, and returns what it did.
func (a *attacker) end() (did string, err error) {
	_ = a.in.Close()
	select {
	case <-a.done:
		return strings.TrimSpace(a.out.String()), a.err
	case <-time.After(time.Minute):
		return "", errors.New("the attacker does not end")
	}
}

// stop kills the attacker if it has not ended.
func (a *attacker) stop() {
	_ = a.cmd.Process.Kill()
	<-a.done
}

// stop kills the process.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cpu returns the CPU time that the process has used, in steps of 10 ms (proc(5)).
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// peak returns the most memory that was resident at a time, in bytes.
func (p *process) peak() (bytes int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			_, err := fmt.Sscan(value, &bytes)
			return bytes << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no VmHWM", f.Name())
}
