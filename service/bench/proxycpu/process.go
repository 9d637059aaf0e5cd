package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A process is a server in a separate process.
type process struct {
	addr string
	cmd  *exec.Cmd
	out  bytes.Buffer
	pids func() []int // of the processes that serve
}

// freeAddr returns an address of loopback with a free port.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// start starts a server. Its last argument is a free address for it to listen on.
func start(path string, args ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return startAt(addr, path, append(args[:len(args):len(args)], addr)...)
}

// startAt starts a server that listens on an address.
func startAt(addr, path string, args ...string) (*process, error) {
	p := &process{addr: addr, cmd: exec.Command(path, args...)}
	p.cmd.Stderr = &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.pids = func() []int { return []int{p.cmd.Process.Pid} }
	var err error
	for range 500 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr); err == nil {
			return p, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%v does not answer: %w: %s", p.cmd.Args, err, &p.out)
}

// stop ends the process.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	ended := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		<-ended
	}
}

// cpu returns the CPU time that the threads of the process have used: the first number of
// their schedstat, in nanoseconds. The one in proc(5)'s stat has steps of 10 ms.
func (p *process) cpu() (sum time.Duration, err error) {
	for _, pid := range p.pids() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil {
			return 0, err
		}
		for _, path := range threads {
			stat, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has ended; neither Go nor nginx ends threads under load
			}
			if err != nil {
				return 0, err
			}
			var used int64
			if _, err := fmt.Sscan(string(stat), &used); err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			sum += time.Duration(used)
		}
	}
	return sum, nil
}

// children returns the processes that a process has started.
func children(pid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, child)
		}
	}
	return pids
}

// A result holds the figures of one run.
type result struct {
	cost time.Duration // CPU time for a request
	rate float64       // requests a second
}

var (
	succeeded = regexp.MustCompile(`(\d+) succeeded, (\d+) failed`)
	statuses  = regexp.MustCompile(`status codes: (\d+) 2xx`)
	rates     = regexp.MustCompile(`([\d.]+) req/s`)
)

// measure puts a proxy under load for a time. On a busy machine, that time can pass before the
// first answer; then it tries again.
func (s setting) measure(p *process, l load, d time.Duration) (r result, err error) {
	for range 10 {
		r, err = s.measureOnce(p, l, d)
		if r.rate > 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return r, err
		}
	}
	return r, fmt.Errorf("no answers within %v, ten times", d)
}

// measureOnce is one try. Over HTTP/2, h2load does not always end.
func (s setting) measureOnce(p *process, l load, d time.Duration) (r result, err error) {
	scheme, clients := "http://", strconv.Itoa(s.clients)
	if l.tls {
		scheme = "https://"
	}
	args := append([]string{"-t1", fmt.Sprintf("-D%dms", d.Milliseconds()), "--warm-up-time=0"}, l.args...)
	if len(l.args) > 0 {
		args = append(args, "-c"+clients)
	} else {
		args = append(args, "-c4", "-m"+strconv.Itoa(max(s.clients/4, 1)))
	}
	before, err := p.cpu()
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), d+10*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "h2load", append(args, scheme+p.addr+l.path)...).CombinedOutput()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		return r, fmt.Errorf("h2load: %w: %s", err, text)
	}
	after, err := p.cpu()
	if err != nil {
		return r, err
	}
	done, good, rate := succeeded.FindSubmatch(text), statuses.FindSubmatch(text), rates.FindSubmatch(text)
	if done == nil || good == nil || rate == nil {
		return r, fmt.Errorf("h2load says: %s", text)
	}
	n, _ := strconv.Atoi(string(good[1]))
	if failed, _ := strconv.Atoi(string(done[2])); failed > 0 {
		return r, fmt.Errorf("requests failed: %s", text)
	}
	if n == 0 {
		return r, nil
	}
	r.rate, _ = strconv.ParseFloat(string(rate[1]), 64)
	r.cost = (after - before) / time.Duration(n)
	return r, nil
}
