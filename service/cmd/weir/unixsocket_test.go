//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/pires/go-proxyproto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-go/weir/service/internal/unixsocket"
)

// A socketDir is a directory for sockets.
type socketDir struct {
	t    *testing.T
	path string
}

func newSocketDir(t *testing.T) socketDir {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir") // shorter than TempDir: the path of a socket is bounded
	fatal(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return socketDir{t, dir}
}

// of returns the address of a socket, for a flag.
func (d socketDir) of(name string) string { return "unix:" + filepath.Join(d.path, name) }

// client returns a client that sends each request to a socket, on its own connection.
func (d socketDir) client(name string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.path, name))
		},
	}}
}

// has expects the sockets in the directory.
func (d socketDir) has(want ...string) {
	d.t.Helper()
	entries, err := os.ReadDir(d.path)
	fatal(d.t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		d.t.Errorf("there are %q: want %q", got, want)
	}
}

// origin serves at a socket what echo does, until the test ends.
func (d socketDir) origin(name string) (url string) {
	d.t.Helper()
	ln, err := unixsocket.Listen(filepath.Join(d.path, name), 0o600)
	fatal(d.t, err)
	s := echo(d.t)
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	return "unix://" + filepath.Join(d.path, name)
}

// The proxy listens at Unix sockets, and has its origin at one. Peers there are one client, or
// trusted proxies.
func TestProxyUnix(t *testing.T) {
	d := newSocketDir(t)
	origin := d.origin("o")
	for name, tt := range map[string]struct {
		trust []string
		want  string
	}{
		"untrusted":        {nil, "for [] by [http], forwarded []"},
		"others trusted":   {[]string{"--trust", "192.0.2.0/24"}, "for [] by [http], forwarded []"},
		"trusted":          {[]string{"--trust", "unix"}, "for [198.51.100.1] by [https], forwarded [for=198.51.100.1, for=unknown;proto=http]"},
		"machine trusted":  {[]string{"--trust", "127.0.0.0/8"}, "for [198.51.100.1] by [https], forwarded [for=198.51.100.1, for=unknown;proto=http]"},
		"trusted, the end": {[]string{"--trust", "unix,10.0.0.0/8"}, "for [198.51.100.1] by [https], forwarded [for=198.51.100.1, for=unknown;proto=http]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := proxying(t, append(tt.trust, "--origin", origin, "--listen", d.of("p"), "--admin", d.of("a"))...)
			if s.public != d.of("p") || s.admin != d.of("a") {
				t.Errorf("the log says %s, %s", s.public, s.admin)
			}
			d.has("a", "o", "p")
			a := ask(t, d.client("p"), "GET", "http://shop.example/", "X-Forwarded-For", "198.51.100.1", "X-Forwarded-Proto", "https", "Forwarded", "for=198.51.100.1")
			if want := "HTTP/1.1 shop.example " + tt.want; a.body != want {
				t.Errorf("%d %s: want %s", a.status, a.body, want)
			}
			if a := ask(t, d.client("a"), "GET", "http://localhost/-/ready"); a.status != 200 {
				t.Errorf("ready: %d %s", a.status, a.body)
			}
			if a := ask(t, d.client("a"), "GET", "http://evil.example/-/ready"); a.status != 403 {
				t.Errorf("a name that a web site can own: %d %s", a.status, a.body)
			}
			s.end()
			d.has("o")
		})
	}
	gone := proxying(t, "--origin", "unix://"+d.path+"/none")
	if a := gone.get(); a.status != 502 || !strings.Contains(a.body, "its Unix socket cannot be opened") || !strings.Contains(a.body, "origin_unreachable") {
		t.Errorf("without a socket: %d %s", a.status, a.body)
	}
	two := proxying(t, "--origin", origin, "--origin", d.origin("o2"))
	for range 20 { // both
		if a := two.get(); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// Each client behind a trusted proxy at a Unix socket has its own limit and its own share.
func TestProxyUnixRules(t *testing.T) {
	d := newSocketDir(t)
	rules := file(t, "rules.yaml", "rules: [{name: clients, by: address, rate: 1/h}]")
	for trust, want := range map[string][]int{"unix": {200, 200, 429}, "192.0.2.1": {200, 429, 429}} {
		s := proxying(t, "--origin", d.origin("o"), "--rules", rules, "--listen", d.of("p"), "--trust", trust)
		for i, client := range []string{"198.51.100.1", "198.51.100.2", "198.51.100.1"} {
			if a := ask(t, d.client("p"), "GET", "http://shop.example/", "X-Forwarded-For", client); a.status != want[i] {
				t.Errorf("trust %s, request %d: %d: want %d", trust, i, a.status, want[i])
			}
		}
		s.end()
	}
}

// A proxy at a Unix socket tells its client by the header of the PROXY protocol.
func TestProxyUnixProxyProtocol(t *testing.T) {
	d := newSocketDir(t)
	s := proxying(t, "--origin", d.origin("o"), "--listen", d.of("p"), "--trust", "unix", "--proxy-protocol")
	header := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.1:4711")), net.TCPAddrFromAddrPort(netip.MustParseAddrPort("203.0.113.5:443")))
	c, err := net.Dial("unix", filepath.Join(d.path, "p"))
	fatal(t, err)
	defer c.Close()
	_, err = header.WriteTo(c)
	fatal(t, err)
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n")
	fatal(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	fatal(t, err)
	body, err := io.ReadAll(resp.Body)
	fatal(t, err)
	if !strings.Contains(string(body), "for [198.51.100.1] by") {
		t.Errorf("%s", body)
	}
	s.end()
}

// All listeners of the server can be Unix sockets.
func TestServeUnix(t *testing.T) {
	rules := file(t, "rules.yaml", "rules: [{name: own, glob: '*', rate: 2/h, own_quota: true}]")
	for _, transport := range []string{"std", "inline"} {
		d := newSocketDir(t)
		s := serving(t, "--transport", transport, "--rules", rules, "--socket-mode", "0600",
			"--listen", d.of("p"), "--admin", d.of("a"), "--grpc-listen", d.of("g"), "--resp-listen", d.of("r"))
		d.has("a", "g", "p", "r")
		if info, err := os.Stat(filepath.Join(d.path, "p")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		for i, want := range []int{200, 200, 429} {
			if a := ask(t, d.client("p"), "POST", "http://localhost/rate/a"); a.status != want {
				t.Errorf("%s, %d: %d %s: want %d", transport, i, a.status, a.body, want)
			}
		}
		if a := ask(t, d.client("a"), "GET", "http://localhost/-/ready"); a.status != 200 {
			t.Errorf("ready: %d %s", a.status, a.body)
		}
		nc, err := net.Dial("unix", filepath.Join(d.path, "r"))
		c := respOver(t, nc, err)
		c.send("PING")
		c.wants("+PONG")
		conn, err := grpc.NewClient(d.of("g"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		fatal(t, err)
		defer conn.Close()
		if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "d"}); err == nil || strings.Contains(err.Error(), "Unavailable") {
			t.Errorf("gRPC: %v: want an answer about a request without descriptors", err)
		}
		nc.Close()
		conn.Close()
		s.end()
		d.has()
	}
}

// A process takes over the socket of another one. No request finds no server, and none is lost.
func TestUnixRestart(t *testing.T) {
	d := newSocketDir(t)
	origin := d.origin("o")
	old := proxying(t, "--origin", origin, "--listen", d.of("p"))
	client := d.client("p")
	sent, stop, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if a, err := tryAsk(client, "GET", "http://shop.example/"); err != nil || a.status != 200 {
				t.Errorf("%d, %v", a.status, err)
				return
			}
			select {
			case sent <- struct{}{}:
			case <-stop:
				return
			default:
			}
		}
	}()
	some := func() {
		for range 10 {
			select {
			case <-sent:
			case <-ended:
			}
		}
	}
	some()
	next := proxying(t, "--origin", origin, "--listen", d.of("p"))
	next.until("takes over the socket of another process")
	some()
	old.end()
	some()
	close(stop)
	<-ended
	next.end()
	d.has("o")
}

func TestUnixRefused(t *testing.T) {
	d := newSocketDir(t)
	precious := filepath.Join(d.path, "f")
	fatal(t, os.WriteFile(precious, nil, 0o600))
	s := httptest.NewServer(nil)
	defer s.Close()
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--listen unix:" + precious, 1, "--listen: " + precious + " is a file, and not a socket"},
		{"--listen unix:", 1, "--listen: the path of the socket is empty"},
		{"--listen unix:" + d.path + "/none/s", 1, "--listen: "},
		{"--admin unix:" + precious, 1, "--admin: "},
		{"--socket-mode rw", 2, `--socket-mode: "rw": want an octal number up to 0777, such as 0660`},
		{"--origin unix:", 2, `--origin="unix:": must begin with a scheme`},
		{"--origin unix://host/s", 2, `must have the path of a socket alone, as in unix:///run/app.sock`},
		{"--origin unix:///", 2, `must have the path of a socket alone`},
	} {
		args := append([]string{"proxy", "--origin", s.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, strings.Fields(tt.args)...)
		if code, _, stderr := weir(t, args...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit status %d, %s: want %d, %s", tt.args, code, stderr, tt.code, tt.want)
		}
	}
	d.has("f")
}
