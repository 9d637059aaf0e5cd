//go:build system

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Proxies that pass a body on while it comes, and answers as they are.
const (
	besideNginx = `worker_processes 1;
error_log stderr crit;
pid nginx.pid;
daemon off;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	server {
		listen 127.0.0.1:LISTEN;
		location / {
			proxy_pass http://ORIGIN;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_request_buffering off;
			proxy_buffering off;
		}
	}
}
`
	besideHAProxy = `global
	nbthread 1
defaults
	mode http
	timeout connect 30s
	timeout client 30s
	timeout server 30s
frontend front
	bind 127.0.0.1:LISTEN
	default_backend origin
backend origin
	server origin ORIGIN
`
)

// besides returns the addresses of weir proxy, nginx and HAProxy before an origin.
func besides(t *testing.T, origin string) map[string]string {
	t.Helper()
	s := proxying(t, "--origin", "http://"+origin, "--limit", "1000")
	t.Cleanup(s.end)
	all := map[string]string{"weir proxy": strings.TrimPrefix(s.public, "http://")}
	for name, text := range map[string]string{"nginx": besideNginx, "HAProxy": besideHAProxy} {
		dir, listen := t.TempDir(), freePort(t)
		fatal(t, os.Chmod(dir, 0o755)) // workers have another user
		file := filepath.Join(dir, "conf")
		fatal(t, os.WriteFile(file, []byte(strings.NewReplacer("LISTEN", listen, "ORIGIN", origin).Replace(text)), 0o644))
		cmd := exec.Command("haproxy", "-db", "-q", "-f", file)
		if name == "nginx" {
			cmd = exec.Command("nginx", "-p", dir, "-c", file)
		}
		all[name] = strings.TrimPrefix(startGateway(t, name, dir, listen, cmd), "http://")
	}
	return all
}

// listening serves each connection by a function, until the test ends, and returns the address.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return fmt.Sprint(ln.Addr())
}
