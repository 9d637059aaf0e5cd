package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// subnet is for tests of networks (RFC 2544). Callers are at the address here.
const (
	subnet = "198.18.0."
	here   = subnet + "254"
)

// A world is hosts, each in a network namespace, on one switch, and what is measured there. The first error of a method
// ends the play.
type world struct {
	*setup
	random   *rand.Rand
	dir      string
	hosts    []*host
	measures []measure
	client   *http.Client
	control  *load // see startLoad
}

// newWorld makes the switch. The process must have been started by isolate.
func newWorld(s *setup, seed uint64) (*world, error) {
	w := &world{setup: s, random: rand.New(rand.NewPCG(seed, 46))}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE}, {"proc", "/proc", "proc", 0}, {"run", "/run", "tmpfs", 0}} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	var err error
	if w.dir, err = os.MkdirTemp("/run", "play"); err != nil {
		return nil, err
	}
	w.run("ip link set lo up")
	w.run("ip link add switch address 02:00:00:00:02:fe type bridge") // else it is the least of its hosts, and changes when that is unplugged
	w.run("ip address add " + here + "/24 dev switch")
	w.run("ip link set switch up")
	w.client = w.newClient()
	return w, nil
}

// newClient returns a client that shares no connection.
func (w *world) newClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 100, DialContext: (&net.Dialer{Timeout: patience}).DialContext}}
}

// close ends all processes.
func (w *world) close() {
	for _, h := range w.hosts {
		for _, p := range h.processes {
			p.kill()
		}
	}
}

// check ends the play if there is an error.
func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

// run runs a command.
func (w *world) run(command string) {
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %w: %s", command, err, out))
	}
}

// file writes a file, and returns its path.
func (w *world) file(name, content string) string {
	path := filepath.Join(w.dir, name)
	check(os.WriteFile(path, []byte(content), 0o600))
	return path
}

// disk returns a directory on a file system of a size.
func (w *world) disk(name, size string) string {
	path := filepath.Join(w.dir, name)
	check(os.Mkdir(path, 0o700))
	check(syscall.Mount(name, path, "tmpfs", 0, "size="+size))
	return path
}

// fill writes a file that takes all of a disk, and returns what frees it.
func fill(disk string) (free func()) {
	f, err := os.Create(filepath.Join(disk, "full"))
	check(err)
	for block := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(block)
	}
	_ = f.Close()
	return func() { check(os.Remove(f.Name())) }
}

// pause sleeps, and up to a fifth longer.
func (w *world) pause(d time.Duration) {
	time.Sleep(d + time.Duration(w.random.Int64N(int64(d/5)+1)))
}

// A host has a network namespace and an address.
type host struct {
	w         *world
	name      string
	ip        string
	mac       string
	processes []*proc
}

func (w *world) host() *host {
	n := len(w.hosts) + 1
	h := &host{w: w, name: fmt.Sprint("h", n), ip: fmt.Sprint(subnet, n), mac: fmt.Sprintf("02:00:00:00:01:%02x", n)}
	w.hosts = append(w.hosts, h)
	h.set(0)
	w.run("ip netns add " + h.name)
	w.run("ip link add " + h.name + " type veth peer name eth netns " + h.name)
	w.run("ip link set " + h.name + " master switch up")
	w.run("ip -n " + h.name + " link set eth address " + h.mac)
	w.run("ip -n " + h.name + " address add " + h.ip + "/24 dev eth")
	w.run("ip -n " + h.name + " link set lo up")
	w.run("ip -n " + h.name + " link set eth up")
	return h
}

// unplug takes the host off the switch. No packet passes, and its link stays up.
func (h *host) unplug() { h.w.run("ip link set " + h.name + " nomaster") }

// plug connects it again.
func (h *host) plug() { h.w.run("ip link set " + h.name + " master switch") }

// deafen drops what the host sends to another one, silently: it goes to an address that no host has.
func (h *host) deafen(to *host) {
	h.w.run("ip -n " + h.name + " neigh replace " + to.ip + " lladdr 02:00:00:00:ff:ff nud permanent dev eth")
}

// hear lets it through again.
func (h *host) hear(to *host) {
	h.w.run("ip -n " + h.name + " neigh replace " + to.ip + " lladdr " + to.mac + " nud reachable dev eth")
}

// cut drops everything between two hosts, silently.
func cut(a, b *host)  { a.deafen(b); b.deafen(a) }
func heal(a, b *host) { a.hear(b); b.hear(a) }

// A proc is a process on a host, which can be started again.
type proc struct {
	h    *host
	args []string
	env  []string
	addr string // it listens there

	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex // guards log
	log   bytes.Buffer
}

// Write keeps what the process logs.
func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// logged returns what the process has logged so far.
func (p *proc) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start starts a process, and returns when it listens at a port.
func (h *host) start(port int, args ...string) *proc {
	p := &proc{h: h, args: args, addr: fmt.Sprint(h.ip, ":", port)}
	h.processes = append(h.processes, p)
	p.again()
	return p
}

// again starts the process once more, and returns when it listens.
func (p *proc) again() {
	p.launch()
	for range 500 {
		if conn, err := net.DialTimeout("tcp", p.addr, time.Second); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-p.ended:
			check(fmt.Errorf("%v has ended: %s", p.args, p.logged()))
		case <-time.After(20 * time.Millisecond):
		}
	}
	check(fmt.Errorf("%v does not listen at %s: %s", p.args, p.addr, p.logged()))
}

// untilReady waits until a weir says that it is ready.
func (p *proc) untilReady() *proc {
	until("ready", func() bool { _, err := p.get("/-/ready"); return err == nil })
	return p
}

// launch starts the process.
func (p *proc) launch() {
	p.cmd = exec.Command("ip", append([]string{"netns", "exec", p.h.name}, p.args...)...)
	p.cmd.Env = append(append(os.Environ(), "FAULTS_CLOCK="+p.h.clock()), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(p.cmd.Start())
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(p.cmd, p.ended)
}

// signal signals the process, and what it runs.
func (p *proc) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// kill is kill -9.
func (p *proc) kill() { p.signal(syscall.SIGKILL); <-p.ended }

// end is SIGTERM. It returns when the process has ended.
func (p *proc) end() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		check(fmt.Errorf("%v does not end", p.args))
	}
}

func (p *proc) stop() { p.signal(syscall.SIGSTOP) }
func (p *proc) cont() { p.signal(syscall.SIGCONT) }

// restart ends the process, and starts it as another version of weir.
func (p *proc) restart(binary string) {
	p.end()
	for i, a := range p.args {
		if a == p.h.w.weir || a == p.h.w.released {
			p.args[i] = binary
		}
	}
	p.again()
}

// url is its address for HTTP.
func (p *proc) url() string { return "http://" + p.addr }

// serve starts weir serve on a host, which listens at :8080, with its operators at :8081.
func (h *host) serve(args ...string) *proc {
	return h.start(8080, append([]string{h.w.weir, "serve", "--listen", h.ip + ":8080", "--admin", h.ip + ":8081"}, args...)...)
}

// get returns the answer to a GET request at the operators' port of a process.
func (p *proc) get(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.h.ip+":8081"+path, nil)
	check(err)
	resp, err := p.h.w.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// metric returns the sum of a metric over its labels.
func (p *proc) metric(name string) (sum float64) {
	body, err := p.get("/metrics")
	check(err)
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			var v float64
			_, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v)
			check(err)
			sum += v
		}
	}
	return sum
}

// until waits until a condition holds, for half a minute at most.
func until(what string, holds func() bool) {
	for range 600 {
		if holds() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	check(fmt.Errorf("not in 30 s: %s", what))
}
