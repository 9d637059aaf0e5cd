//go:build system

package main

import (
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// transports are the values of --transport.
var transports = []string{"std", "inline"}

// A transported is a weir serve with a transport.
type transported struct {
	*served
	t         *testing.T // that uses it
	transport string
	secure    bool
	ca        *authority // of secure
	caFile    string
}

func (s transported) name() string {
	if s.secure {
		return s.transport + ", TLS"
	}
	return s.transport
}

// host returns the address of the listener of callers.
func (s transported) host() string {
	u, err := url.Parse(s.public)
	fatal(s.t, err)
	return u.Host
}

func (s transported) port() string {
	_, port, err := net.SplitHostPort(s.host())
	fatal(s.t, err)
	return port
}

// serveTransports runs a weir serve for each transport, with TLS and without.
func serveTransports(t *testing.T, args ...string) (all []transported) {
	t.Helper()
	ca := newAuthority(t, "ours")
	files := newTLSFiles(t, ca)
	for _, transport := range transports {
		args := append([]string{"--transport", transport}, args...)
		all = append(all, transported{serving(t, args...), t, transport, false, ca, files.ca},
			transported{serving(t, append(args, files.flags()...)...), t, transport, true, ca, files.ca})
	}
	return all
}

// clientDir returns the directory of a client that make need has installed.
func clientDir(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.Command("go", "env", "GOPATH").Output()
	fatal(t, err)
	return filepath.Join(strings.TrimSpace(string(path)), "clients", name)
}
