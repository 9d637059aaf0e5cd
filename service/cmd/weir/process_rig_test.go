package main

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"syscall"
	"testing"
)

// A process is a weir serve that is a process of its own.
type process struct {
	*served
	cmd *exec.Cmd
}

func startProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name, serveArgs(args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return &process{cmd: cmd, served: watch(t, stop, func(log io.Writer) int {
		cmd.Stderr = log
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	})}
}

// kill ends it at once, as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// A heldLease is a lease as its holder sees it.
type heldLease struct {
	ID    string `json:"lease_id"`
	Token uint64
}

// lease takes a lease of a key, and returns its path.
func (s *served) lease(key string) (path string) {
	s.t.Helper()
	var l heldLease
	a := s.post("/lease/" + key)
	fatal(s.t, json.Unmarshal([]byte(a.body), &l))
	return "/lease/" + key + "/" + l.ID
}
