//go:build system

package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// SIGTERM: no new connections, requests in flight are finished, exit status 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan bool, 1), make(chan bool)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- true
		<-finish
		_, _ = io.WriteString(w, "finished")
	}))
	defer origin.Close()
	cmd, listen, admin, log := start(t, binary(t), "proxy", "--origin", origin.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s")
	if status, _, err := get(admin + "/-/ready"); status != 200 {
		t.Errorf("ready: %d, %v: want 200", status, err)
	}
	answered := make(chan error)
	go func() {
		status, body, err := get(listen)
		if status != 200 || body != "finished" {
			err = errors.Join(err, errors.New(http.StatusText(status)+": "+body))
		}
		answered <- err
	}()
	<-arrived
	fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	until(t, log, "draining")
	if status, _, err := get(admin + "/-/ready"); status != 503 {
		t.Errorf("ready while draining: %d, %v: want 503", status, err)
	}
	// The listener closes soon after that line.
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(listen, "http://"))
		if err != nil {
			break
		}
		conn.Close()
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("the request in flight: %v: want it finished", err)
	}
	until(t, log, "drained")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: want exit status 0", err)
	}
}

// Requests that do not finish within the grace are cut off, which is an error.
func TestGraceIsOver(t *testing.T) {
	t.Parallel()
	arrived := make(chan bool, 1)
	stuck := make(chan bool)
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-stuck
	}))
	defer origin.Close()
	defer close(stuck)
	cmd, listen, _, log := start(t, binary(t), "proxy", "--origin", origin.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s", "--grace", "100ms")
	go func() { _, _, _ = get(listen) }()
	<-arrived
	fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	until(t, log, "--grace=100ms was too short")
	if err, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || err.ExitCode() != 1 {
		t.Errorf("%v: want exit status 1", err)
	}
}
