package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// A server is a weir serve, the upstream.
type server struct {
	*process.Process
	admin string // URL of profiles
	dir   string
}

// A usage has counts of an upstream and its leaves up to an instant.
type usage struct {
	at            time.Time
	cpu           time.Duration
	resident      int64 // bytes
	read, written int   // bytes, of all system calls

	decisions, exchanges, reports, failed uint64
	assigned                              int
}

func startUpstream(s *setting) (*server, error) {
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
	admin, err := process.FreeAddr()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--rules", rules, "--assignment-ttl", s.ttl.String(), "--memory", "256MiB", "--max-assignments", "4000000", "--log-level", "WARN"}
	if s.profile != "" {
		args = append(args, "--pprof", "--admin", admin)
	}
	p, err := process.Start(s.weir, append(args, "--listen")...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &server{p, "http://" + admin, dir}, nil
}

func (p *server) stop() {
	p.Stop()
	_ = os.RemoveAll(p.dir)
}

// usage reads what the process has used, and what the leaves have counted.
func (p *server) usage(l *leaves) (u usage, err error) {
	for i, c := range l.counters {
		u.exchanges += c.exchanges.Load()
		u.reports += c.reports.Load()
		u.failed += c.failed.Load()
		u.assigned += l.sets[i].Stats().Assigned
	}
	u.decisions, u.at = l.decisions.Load(), time.Now()
	if u.cpu, err = p.CPU(); err != nil {
		return u, err
	}
	if u.resident, err = p.Resident(); err != nil {
		return u, err
	}
	u.read, u.written, err = p.IO()
	return u, err
}

// profile writes a profile of 30 seconds if one is wished for.
func (p *server) profile(s *setting) <-chan error {
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
