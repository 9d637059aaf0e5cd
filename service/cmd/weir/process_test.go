//go:build system

package main

import (
	"context"
	"io"
	"os/exec"
	"syscall"
	"testing"
)

// A process is a weir serve in a separate process.
type process struct {
	*served
	cmd *exec.Cmd
}

// startProcess starts the binary with a name as weir serve on free ports.
func startProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startCommand(t, append([]string{name}, serveArgs(args)...)...)
}

// startCommand starts a command line of weir serve.
func startCommand(t *testing.T, command ...string) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
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

// stepOf returns the step of a decision that says how it is degraded.
func stepOf(degraded string) string {
	if degraded == "" {
		return "exact"
	}
	return degraded
}
