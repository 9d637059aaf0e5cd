//go:build system

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// gatewayFiles is the directory of the files that docs/gateways.md shows.
const gatewayFiles = "../../../deploy/gateways"

// A gateway is a program that asks weir serve.
type gateway struct {
	name         string
	file         string    // of its configuration
	more         []string  // files beside it
	open, closed string    // in the file: without a decision
	weir, origin string    // addresses in the file
	token        [2]string // in one of the files: without and with the token SECRET
	times        []string  // time-outs in the files
	command      func(file string) *exec.Cmd
}

// gateways returns the gateways of which there is a recipe.
func gateways(t *testing.T) []gateway {
	return []gateway{
		{
			"nginx", "nginx.conf", nil, "return 204;", "return 500;", "server 127.0.0.1:8080 ", "server 127.0.0.1:9000;",
			[2]string{`# proxy_set_header Authorization "Bearer SECRET";`, `proxy_set_header Authorization "Bearer SECRET";`},
			[]string{"proxy_connect_timeout 50ms;", "proxy_read_timeout 100ms;"},
			func(file string) *exec.Cmd {
				return exec.Command("nginx", "-p", filepath.Dir(file), "-c", file, "-g", "daemon off; pid nginx.pid;")
			},
		},
		{
			"haproxy", "haproxy.cfg", []string{"weir.lua"}, "/check open", "/check closed", "server weir 127.0.0.1:8080 ", "server origin 127.0.0.1:9000",
			[2]string{`-- headers["authorization"] = { "Bearer SECRET" }`, `headers["authorization"] = { "Bearer SECRET" }`},
			[]string{"timeout connect 50ms", "timeout server 100ms", "timeout check 100ms", "local timeout = 1000", "session-timeout 5s"},
			func(file string) *exec.Cmd { return exec.Command("haproxy", "-f", file) },
		},
		{
			"envoy", "envoy.yaml", nil, "failure_mode_allow: true", "failure_mode_allow: false", "port_value: 8080", "port_value: 9000",
			[2]string{"value: none}", "value: Bearer SECRET}"},
			[]string{"timeout: 0.1s", "connect_timeout: 0.05s"},
			func(file string) *exec.Cmd {
				return exec.Command(envoyPath(t), "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning")
			},
		},
	}
}

// A setting is a choice that the comments of the file describe.
type setting struct {
	closed bool // refuses requests while weir does not answer
	hasty  bool // has the time-outs of the file; otherwise, ones that a busy machine keeps
	token  string
}

// start runs the gateway with its file, in which only addresses and settings are replaced, and
// returns its URL.
func (g *gateway) start(t *testing.T, weir, origin string, with setting) string {
	t.Helper()
	dir, listen := t.TempDir(), freePort(t)
	fatal(t, os.Chmod(dir, 0o755)) // workers have another user
	for _, name := range append([]string{g.file}, g.more...) {
		text, err := os.ReadFile(filepath.Join(gatewayFiles, name))
		fatal(t, err)
		if name == g.file {
			text = g.replace(t, text, weir, origin, listen, with.closed)
		}
		if !with.hasty {
			text = g.patient(text)
		}
		if with.token != "" {
			text = bytes.Replace(text, []byte(g.token[0]), []byte(strings.Replace(g.token[1], "SECRET", with.token, 1)), 1)
		}
		fatal(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return startGateway(t, g.name, dir, listen, g.command(filepath.Join(dir, g.file)))
}

// startGateway runs a program in a directory until the test ends, and returns its URL once it listens at a port.
func startGateway(t *testing.T, name, dir, listen string, cmd *exec.Cmd) string {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	fatal(t, err)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	fatal(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // nginx ends its workers
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if log.Close(); t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", name, text[max(len(text)-4000, 0):])
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+listen); err == nil {
			conn.Close()
			return "http://127.0.0.1:" + listen
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen", name)
		}
	}
}

// patient replaces the time-outs of a file by longer ones.
func (g *gateway) patient(text []byte) []byte {
	for _, old := range g.times {
		number := regexp.MustCompile(`[0-9.]+(m?s)?(;?)$`)
		long := map[bool]string{true: "30s", false: "30000"}[strings.Contains(number.FindString(old), "s")]
		text = bytes.ReplaceAll(text, []byte(old), []byte(number.ReplaceAllString(old, long+"$2")))
	}
	return text
}

// replace puts addresses into the file.
func (g *gateway) replace(t *testing.T, text []byte, weir, origin, listen string, closed bool) []byte {
	t.Helper()
	put := func(old, new string) {
		if bytes.Count(text, []byte(old)) != 1 {
			t.Fatalf("%s: want %q once", g.file, old)
		}
		text = bytes.Replace(text, []byte(old), []byte(new), 1)
	}
	if closed {
		put(g.open, g.closed)
	}
	put(g.weir, strings.Replace(g.weir, "8080", portOf(weir), 1))
	put(g.origin, strings.Replace(g.origin, "9000", portOf(origin), 1))
	if bytes.Contains(text, []byte("bind 127.0.0.1:8001")) {
		text = bytes.ReplaceAll(text, []byte("127.0.0.1:8001"), []byte("127.0.0.1:"+freePort(t)))
	}
	for _, bind := range []string{"listen 127.0.0.1:8000", "bind 127.0.0.1:8000", "port_value: 8000"} {
		if bytes.Contains(text, []byte(bind)) {
			put(bind, strings.Replace(bind, "8000", listen, 1))
			return text
		}
	}
	t.Fatalf("%s: no port 8000", g.file)
	return nil
}

// A recorder records the requests that reach a server.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	seen []seenRequest
}

type seenRequest struct {
	*http.Request
	body string
}

// record starts a server that records requests and answers them by a handler.
func record(t *testing.T, next http.Handler) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			body = fmt.Appendf(body, " (%v)", err)
		}
		r.mu.Lock()
		r.seen = append(r.seen, seenRequest{req, string(body)})
		r.mu.Unlock()
		req.Body = http.NoBody
		next.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// take returns the requests since the last call.
func (r *recorder) take() []seenRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

func (r *recorder) address() string { return strings.TrimPrefix(r.URL, "http://") }

// before returns a recorder in front of a weir serve.
func before(t *testing.T, s *served) *recorder {
	t.Helper()
	to, err := url.Parse(s.public)
	fatal(t, err)
	p := httputil.NewSingleHostReverseProxy(to)
	p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return record(t, p)
}
