//go:build unix

package main

import (
	"net"
	"path/filepath"
	"testing"
)

// A service manager learns when the process serves, and when it is about to end.
func TestNotify(t *testing.T) {
	d := newSocketDir(t)
	path := filepath.Join(d.path, "n")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	fatal(t, err)
	defer ln.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	next := func() string {
		b := make([]byte, 100)
		n, err := ln.Read(b)
		fatal(t, err)
		return string(b[:n])
	}
	for name, start := range map[string]func() *served{
		"serve": func() *served { return serving(t) },
		"proxy": func() *served { return proxying(t, "--origin", "http://127.0.0.1:1") },
	} {
		s := start()
		if got := next(); got != "READY=1" {
			t.Errorf("%s: %s", name, got)
		}
		s.end()
		if got := next(); got != "STOPPING=1" {
			t.Errorf("%s: %s", name, got)
		}
	}
	t.Setenv("NOTIFY_SOCKET", path+"-none")
	s := serving(t)
	s.until("the service manager cannot be told about the state of the process")
	s.end()
}
