package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A process is the upstream.
type process struct {
	url   string
	admin string // URL of profiles
	dir   string
	cmd   *exec.Cmd
}

// A usage has counts of an upstream and its leaves up to an instant.
type usage struct {
	at            time.Time
	cpu           time.Duration
	rss           int
	read, written int // bytes, of all system calls

	decisions, exchanges, reports, failed uint64
	assigned                              int
}

func startUpstream(s *setting) (*process, error) {
	dir, err := os.MkdirTemp("", "fleetload")
	if err != nil {
		return nil, err
	}
	rules := filepath.Join(dir, "rules.yaml")
	// Leaves want a fifth of the limit of a calm key, and twice the limit of a hot one.
	text := fmt.Sprintf("rules:\n  - {name: hot, glob: 'hot-*', rate: %d/s}\n  - {name: calm, glob: 'key-*', rate: %d/s}\n", max(s.leaves/2, 1), 5*s.leaves)
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--rules", rules, "--listen", addr, "--assignment-ttl", s.ttl.String(), "--memory", "256MiB", "--max-assignments", "4000000", "--log-level", "WARN"}
	if s.profile != "" {
		args = append(args, "--pprof", "--admin", admin)
	}
	p := &process{"http://" + addr, "http://" + admin, dir, exec.Command(s.weir, args...)}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return p, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%v does not answer", p.cmd.Args)
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = os.RemoveAll(p.dir)
}

// usage reads what the process has used, and what the leaves have counted.
func (p *process) usage(l *leaves) (u usage, err error) {
	for i, c := range l.counters {
		u.exchanges += c.exchanges.Load()
		u.reports += c.reports.Load()
		u.failed += c.failed.Load()
		u.assigned += l.sets[i].Stats().Assigned
	}
	u.decisions, u.at = l.decisions.Load(), time.Now()
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // proc(5): state is the third
	for _, i := range []int{11, 12} {                                                   // utime, stime
		ticks, err := strconv.Atoi(fields[i])
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	pages, err := strconv.Atoi(fields[21])
	if err != nil {
		return u, err
	}
	u.rss = pages * os.Getpagesize()
	calls, err := os.ReadFile(proc + "io")
	if err != nil {
		return u, err
	}
	_, err = fmt.Sscanf(string(calls), "rchar: %d\nwchar: %d", &u.read, &u.written)
	return u, err
}

// profile writes a profile of 30 seconds if one is wished for.
func (p *process) profile(s *setting) <-chan error {
	done := make(chan error, 1)
	if s.profile == "" {
		done <- nil
		return done
	}
	go func() {
		done <- func() error {
			resp, err := http.Get(p.admin + "/debug/pprof/profile?seconds=30")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			f, err := os.Create(s.profile)
			if err != nil {
				return err
			}
			if _, err := io.Copy(f, resp.Body); err != nil {
				return err
			}
			return f.Close()
		}()
	}()
	return done
}
